"""What data files say, at their ends, of the values of their events; by it readers with a filter skip blocks.

footer     `Footer`, and its bytes
making     events that are being published, or a file that is there -> a footer
skipping   footers and a filter -> what is left to read
"""
