"""Typed tree to the text of a kernel for numba.

emitter.py      lines, temporaries, traps, names
numbers.py      arithmetic as text
stored.py       the program's own storage: Python variables where possible, memory elsewhere
code.py         what is known while a program is written; operands in order
places.py       places, and the checks on the way to them
copying.py      deep copies
calls.py        functions, the log, attribute lists
expressions.py  expressions
statements.py   statements
statics.py      static variables
prelude.py      helper functions
event.py        all of it, and the loop over events around it; the entry
"""

from ecode.outcome import Keep
from ecode.typed_to_numba.event import EventKernel, typed_to_numba

__all__ = ["EventKernel", "Keep", "typed_to_numba"]
