"""How well one record type stands for another.

convertible  which field may become which
profile      a record type prepared for comparing
differences  Algorithm 1: diff, weight, mismatch ratio
ffs_rule     what the FFS library would choose
"""
