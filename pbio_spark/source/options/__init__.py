"""Options of the data source.

of_formats  the store of formats
reading  options of reading
channel  options of channels
writing  options of writing
options  every option, in one table
scopes   where an option applies
values   strings -> values of options
parse    options as Spark passes them -> `Options`
derived  values that follow from several options
"""
