"""Reading BP5 folders that are still being written as a stream.

progress  the offsets of a stream
follower  from one offset to the next
stream    what Spark calls
"""
