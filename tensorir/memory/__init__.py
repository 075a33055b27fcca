"""The memory accesses of programs: regions of blocks, parameters, empty reductions, layouts.

`op_pattern` and `reshaping` classify functions by their accesses, which decides on fusion.
"""
