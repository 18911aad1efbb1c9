"""Channels as tables and streams of Spark.

log         options -> a follower of the log of the named channels
plan        events -> partitions
reader      reading a batch, and the work of a task
stream      reading a stream
writer      tasks' files -> one commit, of a batch or of a micro-batch
task        the data files of one task, which nothing refers to yet
background  writes data files while a task continues
"""
