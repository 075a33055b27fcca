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

# ---- write | CONV
reindex("C", ("write", 0))
# becomes
C_reindex = T.alloc_buffer((7,))
for i, k in T.grid(7, 3):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C_reindex[vi] = T.float32(0.0)
        C_reindex[vi] = C_reindex[vi] + A[vi + vk] * W[vk]
for ax0 in range(7):
    with T.block("C_reindex"):
        v0 = T.axis.spatial(7, ax0)
        C[v0] = C_reindex[v0]

# ---- result is the copy and handles survive | CONV
C = get_block("C")
i, k = get_loops(C)
A_reindex_reindex = reindex(C, ("read", 0))
i_0, i_1 = split(i, [None, 2])
# handles
C: block "C"
i: gone, split replaced it
k: for k in range(3)
A_reindex_reindex: block "A_reindex_reindex"
i_0: for i_0 in range(4)
i_1: for i_1 in range(2)

# ---- NOT_FULL
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(i < 5)
            C[vi] = A[vi]

# ---- axes that cancel out are left out | NOT_FULL
# with i in range(8 => n, i, j in T.grid(1, 8, 4
# with 8,)), C: T.Buffer((8, => 4,)), C: T.Buffer((1, 8, 4
# with vi = T.axis.spatial(8, i)\nT.where(i < 5)\nC[vi] = A[vi] => vn, vi, vj = T.axis.remap("SSS", [n, i, j])\nC[vn, vi, vj] = A[vi // 8 * 4 + vj]
reindex("C", ("read", 0))
# blocks
alloc A_reindex(4)
ax0 4: A_reindex_reindex(ax0)
n 1, i 8, j 4: C(n, i, j)

# with i in range(8 => n, i, j in T.grid(1, 8, 4
# with 8,)), C: T.Buffer((8, => 4,)), C: T.Buffer((1, 8, 4
# with vi = T.axis.spatial(8, i)\nT.where(i < 5)\nC[vi] = A[vi] => vn, vi, vj = T.axis.remap("SSS", [n, i, j])\nC[vn, vi, vj] = A[vi // 8 * 4 + vj]
reindex("C", ("write", 0))
# blocks
alloc C_reindex(1, 8, 4)
n 1, i 8, j 4: C(n, i, j)
ax0 1, ax1 8, ax2 4: C_reindex(ax0, ax1, ax2)

# ---- transposed write of split loops | NOT_FULL
# with i in range(8 => i, j in T.grid(11, 5 ; 8,)), C: T.Buffer((8, => 11, 5)), C: T.Buffer((5, 11
# with vi = T.axis.spatial(8, i)\nT.where(i < 5)\nC[vi] = A[vi] => vi, vj = T.axis.remap("SS", [i, j])\nC[4 - vj, vi] = A[vi, vj]
split(i, [None, 4])
reindex("C", ("write", 0))

# ---- several reads of one element | CONV
# with W[vk => A[vi + vk
reindex("C", ("read", 0))

# ---- what is written is copied as far as the loops go | NOT_FULL
reindex("C", ("write", 0))
# becomes
C_reindex = T.alloc_buffer((8,))
for i in range(8):
    with T.block("C"):
        ...
        C_reindex[vi] = A[vi]
for ax0 in range(5):
    with T.block("C_reindex"):
        v0 = T.axis.spatial(8, ax0)
        C[v0] = C_reindex[v0]

# ---- what may keep what it held is filled first | NOT_FULL
# with < 5 => % 2 == 0
reindex("C", ("write", 0))
# blocks
alloc C_reindex(8)
ax0 8: C_reindex_reindex(ax0)
i 8: C(i) where i % 2 == 0
ax0 8: C_reindex(ax0)

# with i < 5 => True ; A[ => C[vi] + A[
reindex("C", ("write", 0))
# blocks
alloc C_reindex(8)
ax0 8: C_reindex_reindex(ax0)
i 8: C(i)
ax0 8: C_reindex(ax0)

# with T.where(i < 5)\nC[vi] = A[vi] => T.where(True)\nif A[vi] > T.float32(1.5):\n    C[vi] = A[vi]
reindex("C", ("write", 0))
# blocks
alloc C_reindex(8)
ax0 8: C_reindex_reindex(ax0)
i 8: C(i)
ax0 8: C_reindex(ax0)

# ---- what a piece of a partitioned loop writes | NOT_FULL
# with i in range(8 => i, j in T.grid(8, 6 ; ,)), C: T.Buffer((8, => , 6)), C: T.Buffer((6, 8
# with vi = T.axis.spatial(8, i)\nT.where(i < 5)\nC[vi] = A[vi] => vi, vj = T.axis.remap("SS", [i, j])\nC[vj, vi] = A[vi, vj]
loop_partition(j, [2, None])
reindex("C_j1", ("write", 0))
# blocks
i 8: C_j_common()
    C_j0_partition()
        j0 2: C_j0(i, j0)
    C_j1_partition()
    alloc C_reindex(8, 6)
        j1 4 from 2: C_j1(i, j1)
        ax0 1, ax1 4: C_reindex(i + ax0, 2 + ax1)

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

# ---- 64 bit shapes | CONV
# with 7, 3 => T.int64(7), T.int64(3)
# with 9,)), W: T.Buffer((3,)), C: T.Buffer((7 => T.int64(9),)), W: T.Buffer((T.int64(3),)), C: T.Buffer((T.int64(7)
reindex("C", ("read", 0))
# blocks
alloc A_reindex(T.int64(7), T.int64(3))
ax0 T.int64(7), ax1 T.int64(3): A_reindex_reindex(ax0, ax1)
i T.int64(7), k T.int64(3): C(i, +k)

# with 7, 3 => T.int64(7), T.int64(3)
# with 9,)), W: T.Buffer((3,)), C: T.Buffer((7 => T.int64(9),)), W: T.Buffer((T.int64(3),)), C: T.Buffer((T.int64(7)
reindex("C", ("write", 0))
# blocks
alloc C_reindex(T.int64(7))
i T.int64(7), k T.int64(3): C(i, +k)
ax0 T.int64(7): C_reindex(ax0)
