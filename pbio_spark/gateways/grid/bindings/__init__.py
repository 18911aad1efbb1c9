"""Events and channels: what the peers of a gateway get of a space, and bring to it (grid-events 7).

settings   (in `grid`) what a gateway is told
catalog    names of events -> channels
wishes     parameters of subscriptions
news       one look for commits, for all
feed       a channel -> a consumer
named      named subscribers: the last connection that asks for a name has it
archive    producers -> channels
made       a type for an event that nothing describes
directory  which gateways a space has
gateway    `GridGateway`, which all of this makes
"""
