"""MaxMatch: which record type a record reaches, by which transforms, and why."""
