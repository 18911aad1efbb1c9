"""From a producer's events to a commit.

submission   a producer's events, as it hands them over
concentrate  rows of any channels and producers -> their groups
prepare      submissions -> encoded events
gather       batch after batch for one channel -> encoded events
straight     the same, straight to the disk where nothing puts them in order
records      records as they came from elsewhere -> events
derivation   events of one channel -> those of channels derived from it
late         what must be derived in order, when all events of a commit are known
packed       encoded events -> data files that wait for their commit
batch        what one commit is to publish, computed again when the log moves on
publisher    data files -> one commit, exactly once
delivery     a publication -> the moment when its subscribers have it
"""
