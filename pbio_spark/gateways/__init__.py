"""Gateways: programs that do not use this project take part in channels, over the network.

server     `Server`: listens, lets peers in, hands each connection to a half, stops in order
peer       `Peer`: one connection, read and written within limits
limits     `Limits`: what peers may do
config     `gateway.toml` -> the configuration of a gateway; `tables`: checked tables
arrival    how many of the sent bytes have reached a peer's machine
text       addresses, and readable errors
evpath     thin streams of EVPath and FFS programs
grid       Grid events: XML over TCP
"""
