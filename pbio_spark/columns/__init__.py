"""Columns: record bytes <-> Arrow record batches, by kernels generated per format and schema.

plan         what has to be done, as values: nodes for columns, levels for places
generate     level -> text of its kernels, fused or ready-made
converter    `Converter`: a plan and its kernels; running it
assemble     what kernels wrote -> Arrow arrays

And back:

encode_plan      what has to be done, as values: nodes for fields, in the order in which bytes are written
encode_numbers   which column may fill which number
encode_planner   format x schema -> plan
encode_text      what a kernel's text is made of
encode_generate  plan -> text of its kernel
encode_parts     a batch taken apart, and the room that its records take
encoder          `Encoder`: a plan and its kernel; running it
"""
