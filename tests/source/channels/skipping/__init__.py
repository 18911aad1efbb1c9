"""Blocks of channels that a filter skips by what data files say of them."""
