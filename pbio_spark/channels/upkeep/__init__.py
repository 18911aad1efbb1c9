"""Keeping a space small and sound.

retention  removes what need not be kept, merges small files
folding    old commits -> folds
expiry     which named subscribers are still present
check      everything that is wrong with a space
"""
