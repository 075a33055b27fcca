"""Reordering the axes of a block."""

# ---- axes and bindings move together and loops stay | MATMUL
reorder_block_iter_var("C", [2, 0, 1])
# becomes
for i, j, k in T.grid(3, 4, 5):
    with T.block("C"):
        vk, vi, vj = T.axis.remap("RSS", [k, i, j])
        ...

# ---- every order computes the same | MATMUL
reorder_block_iter_var("C", [0, 1, 2])
# becomes
...

reorder_block_iter_var("C", [0, 2, 1])
# blocks
i 3, j 4, k 5: C(i, +k, j)

reorder_block_iter_var("C", [1, 0, 2])
# blocks
i 3, j 4, k 5: C(j, i, +k)

reorder_block_iter_var("C", [1, 2, 0])
# blocks
i 3, j 4, k 5: C(j, +k, i)

reorder_block_iter_var("C", [2, 0, 1])
# blocks
i 3, j 4, k 5: C(+k, i, j)

reorder_block_iter_var("C", [2, 1, 0])
# blocks
i 3, j 4, k 5: C(+k, j, i)

# ---- the order that is there changes nothing | MATMUL
reorder_block_iter_var("C", [0, 1, 2])
# becomes
...

# ---- trace | MATMUL
reorder_block_iter_var("C", [2, 0, 1])
# recorded
sch.reorder_block_iter_var(block=b0, new_order=[2, 0, 1])
["ReorderBlockIterVar", ["b0", [2, 0, 1]], [], []]

# ---- an order that is no permutation | MATMUL
reorder_block_iter_var("C", [0, 1])
# refused InvalidReorderIndex at block C: [0, 1] is not a valid permutation of the 3 axes of block "C"

reorder_block_iter_var("C", [0, 1, 2, 3])
# refused InvalidReorderIndex at block C: [0, 1, 2, 3] is not a valid permutation of the 3 axes of block "C"

reorder_block_iter_var("C", [0, 0, 1])
# refused InvalidReorderIndex at block C: [0, 0, 1] is not a valid permutation of the 3 axes of block "C"

reorder_block_iter_var("C", [1, 2, 3])
# refused InvalidReorderIndex at block C: [1, 2, 3] is not a valid permutation of the 3 axes of block "C"

reorder_block_iter_var("C", [-1, 0, 1])
# refused InvalidReorderIndex at block C: [-1, 0, 1] is not a valid permutation of the 3 axes of block "C"

reorder_block_iter_var("C", [])
# refused InvalidReorderIndex at block C: [] is not a valid permutation of the 3 axes of block "C"

# ---- an order of the wrong type | MATMUL
# becomes
...

reorder_block_iter_var("C", 2)
# refused ArgumentError: `new_order` takes a list of ints, got int: 2

reorder_block_iter_var("C", [0, "1", 2])
# refused ArgumentError: `new_order[1]` takes an int, got str: '1'
