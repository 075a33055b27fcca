"""Copying a buffer into the index space of a block."""

# ---- CONV
A = placeholder((9,))
W = placeholder((3,))
k = reduce_axis((0, 3))
C = compute((7,), lambda i: sum(A[i + k] * W[k], k))

# ---- read | CONV
reindex("C", ("read", 0))
# becomes
A_reindex = T.alloc_buffer((7, 3))
for ax0, ax1 in T.grid(7, 3):
    with T.block("A_reindex_reindex"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        A_reindex[v0, v1] = A[v0 + v1]
for i, k in T.grid(7, 3):
    with T.block("C"):
        ...
        C[vi] = C[vi] + A_reindex[vi, vk] * W[vk]

# ---- NOT_FULL
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(i < 5)
            C[vi] = A[vi]

# ---- transposed write of split loops | NOT_FULL
# with i in range(8 => i, j in T.grid(11, 5 ; 8,)), C: T.Buffer((8, => 11, 5)), C: T.Buffer((5, 11
# with vi = T.axis.spatial(8, i)\nT.where(i < 5)\nC[vi] = A[vi] => vi, vj = T.axis.remap("SS", [i, j])\nC[4 - vj, vi] = A[vi, vj]
split(i, [None, 4])
reindex("C", ("write", 0))

# ---- several reads of one element | CONV
# with W[vk => A[vi + vk
reindex("C", ("read", 0))

# ---- what may keep what it held is filled first | NOT_FULL
# with < 5 => % 2 == 0
reindex("C", ("write", 0))
# blocks
alloc C_reindex(8)
ax0 8: C_reindex_reindex(ax0)
i 8: C(i) where i % 2 == 0
ax0 8: C_reindex(ax0)

# ---- refused: invalid buffer access, unsafe stage | CONV
# with W[vk => A[vi
reindex("C", "A")
# refused InvalidBufferAccessError at block C: indices differ

# with with T.init(): => T.reads(A[vi + vk])\nT.writes(C[vi])\nwith T.init():
# with A[vi + vk] * W[vk] => T.call_extern("float32", "f", A.data)
reindex("C", "A")
# refused InvalidBufferAccessError at block C: opaque

# with with T.init(): => T.reads(A[vi + vk], W[vk])\nT.writes(C[vi])\nwith T.init():
# with A[vi + vk] * W => W
reindex("C", "A")
# refused InvalidBufferAccessError at block C: the block does not access it

# with A[vi + vk] => T.if_then_else(1 <= vi + vk, A[vi + vk - 1], T.float32(0))
reindex("C", "A")
# refused UnsafeStageError at block C: would touch

# ---- refused: unsafe stage | NOT_FULL
# with T.where(i < 5)\nC[vi] = A[vi] => C[vi // 2] = A[vi]
reindex("C", "C")
# refused UnsafeStageError at block C: one place

# ---- shared loops are refused | SHARED_LOOPS
reindex("C", "A")
# refused NotSingleChildChainError at block C, block root: not alone

# ---- blocks around blocks are refused | NOT_FULL
# with ,)), C: T.Buffer((8, => , 8)), B: T.Buffer((8, 8 ; C => outer
# with T.where(i < 5)\nouter[vi] = A[vi] => for j in range(8):\n    with T.block("inner"):\n        vj = T.axis.spatial(8, j)\n        B[vi, vj] = A[vi, vj]
reindex("outer", ("read", 0))
# refused NotLeafBlockError at block outer: not a leaf

# ---- scope that is no pipeline is refused | OVERWRITES_ITS_INPUT
reindex("B", "A")
# refused NotStagePipelineError at block root, block A: the scope block "root" is not a stage pipeline around block "B". A stage pipeline has only blocks whose reads are covered by their producers, and no block that overwrites what an earlier one reads; here block "A" overwrites A, which block "B" reads before

# ---- unchecked schedules take what tvm takes | NOT_FULL
# enable_check=False
reindex("C", ("write", 0))
# blocks, not interpreted
alloc C_reindex(8)
i 8: C(i) where i < 5
ax0 8: C_reindex(ax0)
