"""How well one record type can replace another.

convertible  which fields can become which
profile      a record type prepared for comparing
differences  Algorithm 1: diff, weight, mismatch ratio
ffs_rule     the choice of the FFS library
"""
