"""What one commit says.

checked           values from JSON that anyone may have written
commit            a commit, and what it may change
commit_json       commit <-> JSON
groups            where the events of a commit lie, as columns
groups_from_json  the same from JSON, checked
contents          what a batch is made of, in a few bytes
chain             each commit names the one before it
"""
