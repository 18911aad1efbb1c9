"""Typed tree to the text of a kernel for numba.

event     one event, from its inputs to its end; the entry
kernel    the loop over events around it
stages    several programs, one after another, as one kernel
bindings  text that reads the fields of a parameter
code      the state of writing a program; operands in order
emitter   lines, temporaries, traps, names
numbers   arithmetic as text; `fitting` says which numbers fit where
fills     arrays that one loop fills
stored    the program's own storage: Python variables where possible, else memory
state     static variables and state parameters
nodes     nodes of the typed tree -> text
prelude   helper functions
"""

from ecode.outcome import Keep
from ecode.typed_to_numba.event import Destinations, typed_to_numba
from ecode.typed_to_numba.kernel import EventKernel

__all__ = ["Destinations", "EventKernel", "Keep", "typed_to_numba"]
