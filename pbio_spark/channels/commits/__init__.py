"""The contents of one commit.

checked           untrusted values from JSON
commit            a commit, and the changes that it may make
commit_json       commit <-> JSON
groups            where the events of a commit are, as columns
groups_from_json  groups from JSON, checked
contents          a summary of a batch in a few bytes
chain             each commit names its predecessor
"""
