"""Channels as tables and streams of Spark.

log         which channels, and from where: options -> a follower of the log
plan        its events -> partitions, and what reading them needs to know
reader      a batch, and what a task does
stream      what Spark calls
writer      tasks' files -> one commit, of a batch or of a micro-batch
task        what one task writes: data files to which nothing refers yet
background  data files written while a task goes on
"""
