"""set_scope: a buffer moves to another storage scope."""

# ---- the buffer is made anew and renamed | NARROW_STAGES
set_scope("B", 0, "shared")
# becomes
B_shared = T.alloc_buffer((8, 4), scope="shared")
for i, j in T.grid(8, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B_shared[vi, vj] = A[vi, vj] * T.float32(2.0)
for i, j in T.grid(8, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B_shared[vi, vj] + T.float32(1.0)

set_scope("B", "B", "wmma.matrix_a")
# blocks
alloc B_wmma.matrix_a(8, 4) wmma.matrix_a
...

set_scope("B", 0, "")
# becomes
...

# ---- back to global | NARROW_STAGES
set_scope("B", 0, "shared.dyn")
set_scope("B", 0, "global")
# blocks
alloc B_shared.dyn_global(8, 4)
...

# ---- a buffer of an inner block
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(C[vi, 0:4])
            B = T.alloc_buffer((4,))
            for j in range(4):
                with T.block("B"):
                    vj = T.axis.spatial(4, j)
                    B[vj] = A[vi, vj] * T.float32(2)
            for j in range(4):
                with T.block("C"):
                    vj = T.axis.spatial(4, j)
                    C[vi, vj] = B[vj]
# apply
set_scope("B", 0, "local")
# blocks
i 8: row(i)
alloc B_local(4) local
...

# ---- trace | NARROW_STAGES
set_scope("B", "B", "shared")
# recorded
sch.set_scope(block=b0, buffer_index=0, storage_scope="shared")
["SetScope", ["b0"], [0, "shared"], []]

# ---- a buffer or a scope that is not there | NARROW_STAGES
set_scope("B", 1, "shared")
# refused BufferIndexOutOfRangeError at block B: is 1, but

set_scope("B", -1, "shared")
# refused BufferIndexOutOfRangeError at block B: has 1 write region(s)

set_scope("B", 0, "cloud")
# refused InvalidStorageScopeError at block B: unknown storage scope 'cloud'

set_scope("C", 0, "shared")
# refused NonAllocatedBufferError at block C: C is not allocated by a block

set_scope("C", "B", "shared")
# refused ArgumentError: names a buffer that the block reads

# ---- a view | VIEW
set_scope("inner", 0, "shared")
# refused NonAllocatedBufferError at block inner: row is not allocated
