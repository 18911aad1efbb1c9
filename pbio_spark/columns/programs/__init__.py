"""E-code between records and rows: transforms, filters, and what readers want beyond the fields of records.

routes     which transforms and programs lead from a format to what is wanted
seen       the record type that programs of readers see
binding    E-code that reads records where they lie; `wire_record` what it emits for slots and counts
converter  the programs of a route as one kernel
together   several filters over the same records; `gathered` over numbers taken from them once
excluded   which blocks of a file hold no record that a filter lets pass
kept_state  the state of programs while they decode
output     columns that a program wrote -> batches
unfilled   columns that a format can never fill
"""
