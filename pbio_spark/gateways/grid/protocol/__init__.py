"""The protocol: frames, messages and XML.

frames    a length, and that many bytes
nodes     XML <-> elements, by expat; what a message may not hold
messages  the messages, and the table of their parts
codec     messages <-> XML, as the table says
"""
