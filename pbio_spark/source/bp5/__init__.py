"""The Spark data source "bp5".

options     every option, in one table; those that mean the same as in "pbio" are shared
scan        paths -> datasets, their content, and the possible columns
resolve     names given by the user -> names of variables
elements    rows=elements: the columns of elements
selection   the option where -> a compiled program
fitting     whether variables fit the types of columns
plan        what to read, and the parts for tasks
datasource  `Bp5DataSource`, which Spark calls
check       everything that is wrong with a dataset
reader      reading as a batch
follow      reading folders as a stream while they are being written
"""
