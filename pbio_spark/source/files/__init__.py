"""Reading files as a batch.

listing     paths -> files
partitions  `k=v` folders -> columns
outlines    files -> what is known without decoding: formats, places to split
planning    files -> splits and schema
skipping    blocks that a filter excludes, by outlines
reader      planning on the driver, reading in tasks
earlier     formats that an outline lacks
changed     files that are not the planned ones any more
python_rows records as rows of Python values
being_read  the files that a query reads, so that it cannot overwrite them
"""
