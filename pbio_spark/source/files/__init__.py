"""Reading files as a batch.

listing     paths -> files
partitions  `k=v` folders -> columns
outlines    files -> what is known of them without decoding: formats, places to split
planning    files -> splits and schema
skipping    what of them a filter leaves out, by their outlines
reader      what the driver prepares, and what a task does with it
python_rows its records as rows of Python values
being_read  which files a query reads, so that it cannot overwrite them
"""
