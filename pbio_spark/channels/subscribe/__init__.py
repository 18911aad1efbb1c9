"""From commits to the events that a subscriber wants.

follower      the log -> the events of some channels, in order, as pieces of files
offset        the position up to which channels have been read
data_files    opens a file where it is now, or explains its loss
reading       a stretch of a file -> batches of events
ahead         many small pieces -> batches, in one read
plan          a format and a request -> a compiled reader
unfilled      fields of a wanted type that no event can fill
options       the options of a subscriber
delivered     events as subscribers get them
subscription  `Subscription`: follows one channel, hands out its events, acknowledges them
eager         `EagerSubscription`: `Subscription` with code at the sources
streams       the progress of a stream, and its code at the sources
"""
