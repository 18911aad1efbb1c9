"""BP5 datasets -> rows, as Arrow batches.

wanted    what a reader wants, and the part of a dataset that a task reads
survey    datasets -> the columns that they can give
arrow     elements and shapes -> Arrow
contents  the metadata of a variable in some steps, and its column
steps     a row for each step
elements  a row for each element
blocks    a row for each block
catalogue a row for each variable, or attribute
where     E-code that selects rows
finish    columns -> batches of the wanted schema
read      a part -> its rows
"""
