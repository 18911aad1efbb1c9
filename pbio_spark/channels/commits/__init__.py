"""What one commit says.

checked   values of JSON from strangers
entries   a commit <-> its JSON
groups    where the events of a commit lie, as columns
contents  what a batch is made of, in a few bytes
chain     each commit names the one before it
"""
