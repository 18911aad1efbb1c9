"""What can be known about a program before it runs.

analyse     whether it ends, what it costs, which fields it reads and writes
bounds      what must hold for a filter to let an event pass
polynomial  costs, in named sizes
source      what programs may cost at the source of events
work        what each step costs
"""
