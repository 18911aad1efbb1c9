"""From commits to the events that a subscriber wants.

subscribers   named subscribers: how far each one came
wanted        a format and a request -> what reads its events
reading       groups of a data file -> batches, with what the log says of each event
ahead         many small groups, read in one go
delivered     what subscribers are given: events one by one, or as columns
subscription  all of this together, from where a subscriber left off
"""
