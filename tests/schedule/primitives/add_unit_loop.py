"""Putting a loop of one iteration around a statement."""

# ---- around a block | MATRIX
add_unit_loop(B)
# becomes
for i, j, u in T.grid(8, 12, 1):
    ...

# ---- around a loop | MATRIX
add_unit_loop(i)
# becomes
for u, i, j in T.grid(1, 8, 12):
    ...

add_unit_loop(j)
# becomes
for i, u, j in T.grid(8, 1, 12):
    ...

# ---- predicate and bindings stay | MATRIX
# with vi, vj = T.axis.remap("SS", [i, j]) => vi, vj = T.axis.remap("SS", [i, j])\nT.where(i < 5)
add_unit_loop(B)
# becomes
for i, j, u in T.grid(8, 12, 1):
    ...

# ---- the loop is serial and counts in int32 | MATRIX
# with 8, 12): => T.int64(8), T.int64(12)):
add_unit_loop(B)
# becomes
for i, j, u in T.grid(T.int64(8), T.int64(12), 1):
    ...

# ---- trace | MATRIX
add_unit_loop(B)
add_unit_loop(u)
# recorded
l1 = sch.add_unit_loop(block_or_loop=b0)
["AddUnitLoop", ["b0"], [], ["l1"]]
l6 = sch.add_unit_loop(block_or_loop=l5)
["AddUnitLoop", ["l5"], [], ["l6"]]

# ---- the root block cannot be wrapped | MATRIX
# becomes
...

x_root = get_block("root")
add_unit_loop(x_root)
# refused RootBlockError at block root: the primitive does not accept a root block, but block "root" is one

# ---- a name is no handle | MATRIX
add_unit_loop("B")
# refused ArgumentError: `block_or_loop` takes a BlockRV or LoopRV, got str: 'B'
