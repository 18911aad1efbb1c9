"""Options of the data source.

options  every option, in one table
scopes   where an option applies
values   strings -> values of options
parse    options as Spark passes them -> `Options`
derived  values that follow from several options
"""
