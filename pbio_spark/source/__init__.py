"""The Spark data sources "pbio" and "bp5".

session       a Spark that finds this package
datasource    `PbioDataSource`, which Spark calls
options       every option
query         options and formats -> what a query wants
files         reading files as a batch
follow        reading a growing folder as a stream
write         writing a folder of files
channels      reading and writing channels
bp5           the data source "bp5", for ADIOS2's BP5 folders
arrow         Spark's schemas -> Arrow's
limits        limits of a micro-batch
dispatch      hands rows to the reader that they match best
settled       avoids additional garbage collection in Spark's workers
reason_first  errors whose text begins with the reason, even through Spark
"""
