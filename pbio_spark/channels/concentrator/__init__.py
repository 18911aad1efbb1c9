"""One committer for the processes of a machine: JECho's concentrator.

Processes hand it their encoded events over a Unix socket. It puts all of them into one commit, and answers each process
when the commit is durable. It decides nothing: the log does, and a process that gets no answer looks there.

place    the location of a space's socket, and who may use it
frames   messages on it
parcel   encoded events <-> the bytes of a message
joint    publications of several processes -> one commit
server   `Concentrator`: gathers, commits, answers
visitor  a process at the other end, as the concentrator sees it
client   the other end
through  `Through`: publishing through it, or directly if there is none
"""
