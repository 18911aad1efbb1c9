"""State that programs keep from event to event, in generated code.

statics  static variables, and parameters of mode `state`
undo     whether they must be saved before each event
"""
