"""Kinds of operand: what parameters of primitives take, and how traces store it.

A kind is one subclass of `operand.Operand`, which accepts a user's argument, reads and writes what
a trace stores, resolves it, prints it and names its type. `handles` has the kinds of blocks,
loops and buffers, `values` those of numbers and text, and `index_maps` those of functions of
indices.
"""
