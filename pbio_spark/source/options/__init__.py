"""Options of the data source.

of_formats  where formats are kept
reading  what is read, and how
channel  which channels, and how
writing  how records are written
options  every option, in one table
scopes   where an option applies
values   strings -> values of options
parse    options as Spark passes them -> `Options`
derived  values that follow from several options
"""
