"""What a query wants of the formats that are there.

naming    what options call a record type -> a format that has it
request   options -> what is asked of MaxMatch
schema    formats -> those that are wanted, and their columns
plan      all of these -> the plan of reading
unfilled  what nothing fills, and names and programs that do nothing
"""
