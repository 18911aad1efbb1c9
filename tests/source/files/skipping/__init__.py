"""Blocks that a filter skips by what outlines say of them."""
