"""Keeping a space small and sound.

retention  what need not be kept, and small files made into larger ones
folding    old commits -> folds
expiry     which named subscribers are still there
check      all that is wrong with a space
"""
