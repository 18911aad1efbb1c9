"""Gateways: programs without a line of this project take part in channels, over the network.

server     `Server`: listens, lets peers in, hands each connection to a half, stops in order
peer       `Peer`: one connection, read and written within limits
limits     `Limits`: what peers may do
config     `gateway.toml` -> all that a gateway is told; `tables`: checked tables
arrival    how much of what was sent has reached a peer's machine
text       addresses, and errors as people read them
evpath     thin streams of EVPath and FFS programs
grid       Grid events: XML over TCP
"""
