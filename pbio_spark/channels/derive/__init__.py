"""Derived channels: their events are made where the parent's are published, and committed with them (DESIGN 26).

    source      what a source grants and allows: services, limits
    modulator   `Modulator`, the part of a subscriber's handler that runs at the sources
    control     beginning, changing and replacing derivations: each one commit
    parameters  the values of blocks, as users give them
    check       whether programs suit their channels, and what they need
    step        one program compiled for one format: events -> events
    plain       a step by the interpreter: for services in Python, and to check kernels by
    period      a program that makes events of its own
    deriver     what needs no order: as events are published, in any task
    ordered     what does: by the committer, in each producer's order, with its state
    reports     what came of it, for a commit and as rows

Values of parameters are arguments of the compiled programs, so that a change costs nothing but a commit.
"""
