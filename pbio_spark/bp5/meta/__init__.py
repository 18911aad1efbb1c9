"""The metadata of a BP5 folder.

index       md.idx -> where the metadata and data of each step are
formats     mmd.0 -> formats, each taken apart once
variables   field names of formats -> variables
metadata    md.0 -> the metadata blocks of some steps, by format
scalars     metadata blocks -> values of scalars
blocks      metadata blocks -> the blocks of arrays
attributes  attribute blocks -> attributes
"""
