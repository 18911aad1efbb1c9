"""Columns: record bytes <-> Arrow record batches, by kernels generated per format and schema.

plan         what has to be done, as values: nodes for columns, levels for places
generate     level -> text of its kernels, fused or ready-made
converter    `Converter`: a plan and its kernels; running it
assemble     what kernels wrote -> Arrow arrays
"""
