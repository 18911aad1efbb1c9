"""BP5 datasets -> rows, as Arrow batches.

wanted    what a reader wants, and what of a dataset a task reads
survey    datasets -> the columns that they can give
leaves    elements -> Arrow values
nested    flat elements -> nested lists
contents  what steps say of a variable, and the column that it becomes
steps     a row for each step
finish    columns -> batches of the wanted schema
read      a part -> its rows
"""
