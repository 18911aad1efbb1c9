"""The Spark data source "pbio", in the order in which a query passes through it:

options      every option, in one table
listing      paths -> files
partitions   `k=v` folders -> columns
outlines     files -> what is known of them without decoding: formats, places to split
planning     files -> splits and schema
datasource   `PbioDataSource`, which Spark calls
reader       reading a batch
stream       reading a growing folder
writer       writing a folder
"""
