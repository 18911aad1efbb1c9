"""Files -> batches of one schema.

walk        the compiled walk over the items of a file: where its records are
chunks      a part of a file -> chunks of records in memory, whatever their formats
plan        `ReadPlan`: selection, error policy, limits, and what reading takes; `Part`, the part of a file to read
compile     a selection and formats -> the plan, with converters
decoders    the decoder of each format, one for all that are decoded alike
batches     chunks -> batches, bad records by mode
left_out    what reading left out, for the log
read        all of this together
names       renamed columns, and columns that a schema lacks
ranges      the least and greatest values of blocks, which outlines record
null_check  nulls where a schema allows none
"""
