"""Record bytes -> Arrow arrays.

planner    format x wanted columns -> plan: a node for each rule of `formats.arrow.mapping`
plan       the work, as values: nodes for columns, levels for places
generate   level -> text of its kernels, fused or ready-made
fill       what they do for one node
converter  `Converter`: a plan and its kernels; running it
runner     one kernel: its memory and its calls
assemble   the output of kernels -> Arrow arrays
explain    why a record is bad
symbols    names of an enumeration's values from other versions
"""
