"""Reading BP5 folders as a stream while they are being written.

progress  the offsets of a stream
follower  from one offset to the next
stream    what Spark calls
"""
