"""Derived channels: their events are made where the parent's are published, in the same commits (DESIGN 26).

    source      what a source grants and allows: services and limits
    modulator   `Modulator`, the part of a subscriber's handler that runs at the sources
    control     creating, changing and replacing derivations, each in one commit
    parameters  the values of parameter blocks, as users give them
    check       whether programs suit their channels, and what they require
    step        one program compiled for one format: events -> events
    plain       an interpreted step: for services in Python, and to verify kernels
    period      a program that makes events of its own
    deriver     derivations without order: in any task, as events are published
    ordered     derivations with order: by the committer, in each producer's order, with state
    reports     reports of derivations, for a commit and as rows

Parameter values are arguments of the compiled programs, so a change costs only a commit.
"""
