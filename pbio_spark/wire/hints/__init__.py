"""What is known of a file beside its items: where they lie, checked against them and never trusted.

index    FFS's index blocks, interleaved with the items
sidecar  outlines of files, kept beside them
ranges   what values the records of a block hold, part of an outline
"""
