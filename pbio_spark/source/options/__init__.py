"""Options of the data source.

options  every option, in one table
values   strings -> values of options
parse    options as Spark hands them over -> `Options`
"""
