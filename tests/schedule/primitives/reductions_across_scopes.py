"""Reductions that a block in the middle of their loops divides, and buffers that live in it."""

# ---- OUTER_BLOCK
@T.prim_func
def main(A: T.Buffer((4, 3, 5)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 3):
        with T.block("outer"):
            T.reads()
            T.writes()
            for r in range(5):
                with T.block("C"):
                    vi, vk, vr = T.axis.remap("SRR", [i, k, r])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vi, vk, vr]

# ---- a copy that an outer loop makes anew is filled | OUTER_BLOCK
cache_write("C", 0, "local")
# blocks
i 4, k 3: outer()
alloc C_local(4) local
    ax0 1: C_local(i + ax0)
    r 5: C(i, +k, +r)
    ax0 1: C_local(i + ax0)

# ---- copies hold what earlier iterations around the block accumulated | OUTER_BLOCK
cache_write("C", 0, "local")

# ---- SUM
A = placeholder((4, 3, 5))
k = reduce_axis((0, 3))
r = reduce_axis((0, 5))
C = compute((4,), lambda i: sum(A[i, k, r], (k, r)))

# ---- copies hold what earlier iterations around the block accumulated (2) | SUM
loop_partition(r, [2, None])
cache_write("C_r0", 0, "local")

# ---- copies hold what earlier iterations around the block accumulated (3) | OUTER_BLOCK
reindex("C", ("write", 0))

# ---- copies hold what earlier iterations around the block accumulated (4) | SUM
loop_partition(r, [2, None])
reindex("C_r0", ("write", 0))

# ---- copies hold what earlier iterations around the block accumulated (5) | OUTER_BLOCK
write_at(r, "C", 0, "local")

# ---- copies hold what earlier iterations around the block accumulated (6) | SUM
loop_partition(r, [2, None])
write_at(r0, "C_r0", 0, "local")

# ---- a copy beside whole reductions is not filled | OUTER_BLOCK
# with 3) => 1)
cache_write("C", 0, "local")
# blocks
i 4, k 1: outer()
alloc C_local(4) local
    r 5: C(i, +k, +r)
    ax0 1: C_local(i + ax0)

# with i, k in T.grid(4, 3 => i in range(4 ; r in range(5 => k, r in T.grid(3, 5
cache_write("C", 0, "local")
# blocks
i 4: outer()
alloc C_local(4) local
    k 3, r 5: C(i, +k, +r)
    ax0 1: C_local(i + ax0)

# ---- partial results that an outer loop makes anew are refused | OUTER_BLOCK
rfactor(r, 0)
# refused LoopPropertyError at block C, loop r: reduction axis vk may not start at 0

# with 3) => 1)
rfactor(r, 0)

# ---- partial results of a piece of a reduction are refused | SUM
loop_partition(r, [2, None])
rfactor(r0, 0)
# refused LoopPropertyError at block C_r0, loop r0: may not start at 0
