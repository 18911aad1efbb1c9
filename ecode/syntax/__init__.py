"""From text to the syntax tree: what was written, nothing resolved.

lexer           text -> tokens
builder         lark's reductions -> nodes, one method per rule of `ecode.lark`
text_to_syntax  both of them, and the errors with their carets
tree            the nodes
mentions        which fields of a parameter a program names
"""
