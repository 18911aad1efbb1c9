"""The real FFS library against ours: files and buffers of each side, read by the other."""
