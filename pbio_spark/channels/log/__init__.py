"""The log of a space: commits in order, and what they add up to.

files    whole files that appear once: what a log is made of, on any file system that can do it
root     what makes a folder a channel space
log      `Log`, the small interface; `FolderLog`, the embedded default
folds    old commits in blocks, as files
blocks   a fold -> where the events of its commits lie
state    what all commits up to one add up to; checkpoints of it
history  the log with its meaning: followed, and added to
"""
