"""From text to the syntax tree: the program as written, with no names resolved.

lexer           text -> tokens
builder         lark's reductions -> nodes, one method for each rule of `ecode.lark`
text_to_syntax  the lexer, the builder, and the errors with their carets
tree            the nodes
mentions        the fields of a parameter that a program names
"""
