"""From a producer's events to a commit.

submission   a producer's events, as submitted
grouping     rows of any channels and producers -> their groups
prepare      submissions -> encoded events
unreached    why events do not reach their channel's type
gather       batch after batch for one channel -> encoded events
straight     the same, straight to the disk if no order is needed
records      records from elsewhere -> events
derivation   events of one channel -> those of channels derived from it
late         derives in order, when all events of a commit are known
packed       encoded events -> data files that wait for their commit
batch        the content of one commit, recomputed when the log moves on
publisher    data files -> one commit, exactly once
delivery     waits until the subscribers of a publication have it
"""
