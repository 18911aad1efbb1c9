"""The oracle: runs the typed tree on Python values, at once, with no compile time.

memory.py       variables, records, arrays and pointers while a program runs
convert.py      plain Python values to memory and back
places.py       where a place is
expressions.py  expressions as Python closures
assigning.py    assignments, and the arrays that they resize
calling.py      calls of functions, and the log
statements.py   statements as Python closures
run.py          one call of a program
row.py          programs in a row
"""

from ecode.interpreter.run import Interpreter

__all__ = ["Interpreter"]
