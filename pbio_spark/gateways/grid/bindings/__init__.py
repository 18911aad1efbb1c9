"""Events and channels: what peers of a gateway get from a space and send to it (grid-events 7).

settings   (in `grid`) the settings of a gateway
catalog    names of events -> channels
wishes     parameters of subscriptions
news       watches for commits, for all subscriptions
feed       a channel -> a consumer
named      named subscribers: the last connection that asks for a name gets it
archive    producers -> channels
made       a type for an undescribed event
directory  the gateways of a space
gateway    `GridGateway`, which uses all of this
"""
