"""Elements and shapes -> Arrow.

leaves  elements -> Arrow values, by the rules for values of records
nested  flat elements -> nested lists
"""
