"""Channels as tables and streams of Spark.

place       how far channels have been read
log         which channels, from where, and what the log has of them
plan        that -> partitions, and what reading them needs to know
reader      a batch, and what a task does
subscriber  a stream under a subscriber's name
stream      what Spark calls
writer      tasks' files -> one commit, of a batch or of a micro-batch
"""
