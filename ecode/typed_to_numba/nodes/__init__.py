"""Nodes of the typed tree -> text.

places       where values live, and the checks on the way to them
expressions  what has a value
statements   what has none
calls        functions, the log, attribute lists
copying      deep copies of records
"""
