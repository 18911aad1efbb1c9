"""The Spark data source "bp5".

options     every option, in one table; those of "pbio" that mean the same are taken from there
scan        paths -> datasets, what they have, and the columns that can be had
resolve     names as the user gave them -> names of variables
elements    rows=elements: which columns there are
selection   the option where -> a compiled program
fitting     which types columns can have
plan        what is wanted of them, and the parts that tasks read
datasource  `Bp5DataSource`, which Spark calls
check       everything that is wrong with a dataset
reader      reading as a batch
follow      reading folders that are still being written as a stream
"""
