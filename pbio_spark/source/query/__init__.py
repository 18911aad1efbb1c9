"""What a query wants from the available formats.

naming    the name of a record type in options -> a format of that type
request   options -> a request for MaxMatch
schema    formats -> the wanted ones, and their columns
plan      the plan of reading
unfilled  columns that nothing fills, and useless names and programs
"""
