"""Reading a growing folder as a stream.

sight       a look at a file: which file object it is, and whether it may have changed
digest      what was read of a file, as a digest
remembered  many files -> few bytes
progress    the offsets of a stream
matching    files that were read <-> files that are there
advance     how far one file can be read on
follower    from one offset to the next
stream      what Spark calls
"""
