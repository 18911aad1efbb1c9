"""The Spark data sources "pbio" and "bp5".

session       a Spark that finds this package
datasource    `PbioDataSource`, which Spark calls
options       every option
query         options and formats -> what is wanted
files         reading files as a batch
follow        reading a growing folder as a stream
write         writing a folder of files
channels      reading and writing channels
bp5           the data source "bp5", for ADIOS2's BP5 folders
arrow         Spark's schemas -> Arrow's
limits        what one micro-batch may take
dispatch      rows to the reader that they match best
settled       no more garbage collection than Spark has without this package
reason_first  errors whose text begins with the reason, also through Spark
"""
