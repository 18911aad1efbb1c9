"""Blocks that a filter skips because of their outlines."""
