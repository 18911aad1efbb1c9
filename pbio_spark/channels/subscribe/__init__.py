"""From commits to the events that a subscriber wants.

follower      the log -> the events of some channels, in order, as pieces of files
offset        how far channels have been read
data_files    opens a file where it is now; what it means if it is lost
reading       a stretch of a file -> batches of events
ahead         many small pieces -> batches, in one go
plan          a format and a request -> a compiled reader
unfilled      fields of a wanted type that no event can fill
options       how a subscriber wants its events
delivered     events as subscribers get them
subscription  `Subscription`: follows one channel, hands out its events, acknowledges them
eager         `EagerSubscription`: the same, with code of its own at the sources
streams       how far a stream has come, and its own code at the sources
"""
