"""One committer for the processes of a machine: JECho's concentrator.

Processes hand it their encoded events over a Unix socket. It puts those of all together into one commit, and answers
each when that is durable. It decides nothing: the log does, and a process that gets no answer looks there.

place    where the socket of a space is, and who may use it
frames   messages on it
parcel   encoded events <-> the bytes of a message
joint    publications of several processes -> what one commit is to publish
server   `Concentrator`: gathers, commits, answers
visitor  a process at the other end, as the concentrator sees it
client   the other end
through  `Through`: publishing by way of it, and directly where there is none, or no longer
"""
