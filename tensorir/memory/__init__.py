"""Analysis of memory accesses: regions of blocks, written parameters, empty reductions, layouts.

`op_pattern` and `reshaping` classify functions by their accesses; fusion uses this classification.
"""
