"""Nodes of the typed tree -> text.

places       where values are, and the checks on the way to them
expressions  nodes with a value
operators    arithmetic with its checks, pointers that move
assignments  stores, and the arrays that they resize
statements   nodes without a value
calls        functions, the log, attribute lists
copying      deep copies of records
"""
