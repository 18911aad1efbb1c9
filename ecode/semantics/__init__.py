"""What C does: the rules that the interpreter and the compiled engine share.

arithmetic  operators and conversions on numbers
layout      sizes and offsets in memory
values      plain Python values of each type
printf      the formats of `printf`
"""
