"""ADIOS2's BP5 folders, read without ADIOS2 and without Spark (docs/bp5.md).

A folder's bytes become rows going down this list:

    trouble   errors that name file, step, writer and variable
    folder    the files of a folder, by position
    meta      md.idx, mmd.0 and md.0: steps, formats, scalars, where blocks are, attributes
    data      data.N: the bytes of blocks, and the arrays that they make up
    dataset   a folder, its index and formats parsed; one step in plain Python
    rows      steps, elements, blocks and catalogues as Arrow batches
"""
