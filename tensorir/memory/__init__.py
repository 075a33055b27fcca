"""What programs read and write: regions of blocks, parameters, empty reductions, layouts.

What a function does with its elements says what it can be fused with: `op_pattern`, `reshaping`.
"""
