"""What is known of a file beside its items: where they lie, checked against them and never trusted.

index    FFS's index blocks, interleaved with the items
sidecar  outlines of files, kept beside them
"""
