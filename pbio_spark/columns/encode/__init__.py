"""Arrow batches -> record bytes.

planner     format x schema -> plan: a node for each rule of `formats.arrow.mapping`
plan        what has to be done, as values
numbers     which column may fill which number
nulls       what the bytes of a null are; `null_value` what replaces one
generate    plan -> text of the one kernel; `text`, `counts` and `wide` are what that is made of
parts       a batch -> the arrays that the kernel reads
encoder     `Encoder`: a plan and its kernel; running it
"""
