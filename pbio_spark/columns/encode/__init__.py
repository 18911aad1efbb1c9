"""Arrow batches -> record bytes.

planner     format x schema -> plan: a node for each rule of `formats.arrow.mapping`
plan        the work, as values
numbers     which column may fill which number
nulls       the bytes of a null; `null_value`: the replacement of a null
generate    plan -> text of the one kernel; `text`, `counts` and `wide` are its parts
parts       a batch -> the arrays that the kernel reads
encoder     `Encoder`: a plan and its kernel; running it
"""
