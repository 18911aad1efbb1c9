"""The data of a BP5 folder.

places      blocks -> subfile and position
bytes       many blocks read with few calls
operators   compressed blocks -> plain bytes
zfp         one of them
structures  formats of structures -> numpy's types
arrays      blocks -> the arrays that they make up
flat        parts of arrays with contiguous blocks
"""
