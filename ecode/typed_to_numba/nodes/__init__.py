"""Nodes of the typed tree -> text.

places       where values live, and the checks on the way to them
expressions  what has a value
operators    arithmetic with its checks, pointers that move
assignments  stores, and the arrays that they resize
statements   what has no value
calls        functions, the log, attribute lists
copying      deep copies of records
"""
