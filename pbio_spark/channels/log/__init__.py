"""The log of a space: commits in order, and the state that they add up to.

layout   the names of all files of a space
files    files that appear once and whole, on any file system that can create them so
root     what makes a folder a channel space
log      `Log`, the small interface; `FolderLog`, the embedded default
folds    many old commits in one file
blocks   a fold -> where the events of its commits are
reader   commits by version, each checked against its neighbours
state    the state after a commit; checkpoints of it
history  the state, kept up to date; adding commits
"""
