"""Columns: record bytes <-> Arrow record batches, by kernels generated per format and schema.

numbers   which number may become which Arrow type
lossless  values as another type, only without loss
defaults  what a column holds that no field fills
decode    record bytes -> Arrow arrays
encode    Arrow batches -> record bytes
programs  E-code between records and rows: transforms and filters
files     files -> batches of one schema, bad records by mode
values    records that travel as binary values, both ways
"""
