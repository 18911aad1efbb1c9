"""Footers of data files: ranges of values, by which readers with a filter skip blocks.

footer     `Footer`, and its bytes
making     events being published, or an existing file -> a footer
skipping   footers and a filter -> what is left to read
"""
