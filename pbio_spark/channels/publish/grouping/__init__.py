"""Rows of a submission -> groups of one channel and one producer.

concentrate  rows of any channels and producers -> their groups
types        rows whose channels have different types, together where the types are alike
"""
