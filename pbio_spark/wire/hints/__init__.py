"""What else says where the items of a file are: checked against the items, never trusted.

index    FFS's index blocks, interleaved with the items
sidecar  outlines of files, kept beside them
ranges   what values the records of a block hold, part of an outline
"""
