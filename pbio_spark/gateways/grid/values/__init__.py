"""Record types as elements (grid-events 6).

plan      a record type as a tree of elements
scalars   values in one element: numbers, text, times, and so on
times, units
reading   elements -> values, carefully
writing   values -> elements, carefully
compiled  the same, fast
shapes    whole messages -> values, fast, by what was read carefully before
"""
