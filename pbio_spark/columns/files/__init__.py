"""Files -> batches of one schema.

walk        the compiled walk over the items of a file: where its records are
chunks      a part of a file -> chunks of records in memory, whatever their formats
read        all of this together, bad records by mode
names       columns under other names, and those that a schema lacks
null_check  nulls where a schema allows none
"""
