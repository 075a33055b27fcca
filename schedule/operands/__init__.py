"""Kinds of operand: what parameters of primitives take, and how traces store it.

A kind is one subclass of `operand.Operand`, which accepts a user's argument, reads and writes what
a trace stores, resolves it, prints it and names its type. `handles`, `values`, `buffers` and
`index_maps` have the kinds there are, `recorded` is what traces record, and `object_dump` reads
index maps that TVM saved.
"""
