"""Files -> batches of one schema.

walk        the compiled walk over the items of a file: where its records are
chunks      a part of a file -> chunks of records in memory, whatever their formats
wanted      `Wanted`, what a reader wants of every file, and `Part`, what of a file it reads
compile     what is wanted x a format -> the converter of its records
batches     chunks -> batches, bad records by mode
read        all of this together
names       columns under other names, and those that a schema lacks
null_check  nulls where a schema allows none
"""
