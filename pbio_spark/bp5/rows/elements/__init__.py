"""A row for each element of arrays of equal shapes, or for each row of a table.

boxes     arrays in parts of bounded size
counted   the columns that count: the index in each dimension, the number of the step
units     arrays of one shape, and parts of them
elements  steps -> rows
"""
