"""How record types change over time.

edits         how one record type becomes another
renames       fields that may have changed only their names
lineages      which format can become which
score_matrix  all against all
"""
