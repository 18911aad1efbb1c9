"""Reading a growing folder as a stream.

sight       the identity of a file object, and whether it may have changed
digest      a digest of what was read of a file
remembered  many files -> few bytes
progress    the offsets of a stream
matching    files that were read <-> existing files
advance     how far one file can be read now
loss        rows that are gone before they were read
folders     the files of a stream's paths at one moment
follower    from one offset to the next
stream      the class that Spark calls
"""
