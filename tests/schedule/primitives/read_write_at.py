"""Copying the part of a buffer that a loop's body touches."""

# ---- MATMUL_2
A = placeholder((5, 6))
B = placeholder((6, 7))
k = reduce_axis((0, 6))
C = compute((5, 7), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- read | MATMUL_2
read_at(i, "C", 0, "local")
# becomes
A_local = T.alloc_buffer((5, 6), scope="local")
for i in range(5):
    with T.block("A_local"):
        v0 = T.axis.spatial(5, i)
        T.block_attr({"auto_copy": True})
        for ax0, ax1 in T.grid(1, 6):
            A_local[v0 + ax0, ax1] = A[v0 + ax0, ax1]
    for j, k in T.grid(7, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + A_local[vi, vk] * B[vk, vj]

# ---- any loop | MATMUL_2
read_at(i, "C", 0, "local")

read_at(j, "C", 0, "local")

read_at(k, "C", 0, "local")

write_at(i, "C", 0, "local")

write_at(j, "C", 0, "local")

write_at(k, "C", 0, "local")

# ---- tiles | MATMUL_2
split(k, [None, 3])
reorder(k_0, i, j, k_1)
read_at(k_0, "C", 1, "global")

split(k, [None, 3])
reorder(k_0, i, j, k_1)
read_at(i, "C", 1, "global")

# ---- STAGES_2
@T.prim_func
def main(A: T.Buffer((6, 4)), C: T.Buffer((6, 4))):
    B = T.alloc_buffer((6, 4))
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 3 - vj] + T.float32(1)

# ---- read after the buffer is written in the loop | STAGES_2
read_at(i, "C", 0, "global")
# blocks
alloc B(6, 4), B_global(6, 4)
i 6, j 4: B(i, j)
i 6: B_global(i)
i 6, j 4: C(i, j)

# ---- UPDATE
@T.prim_func
def main(A: T.Buffer((5, 6)), B: T.Buffer((6, 7)), C: T.Buffer((5, 7))):
    for i, j, k in T.grid(5, 7, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ---- an update of what was stored in the same iteration needs no filling
@T.prim_func
def main(A: T.Buffer((6, 5)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("zero"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.float32(0)
        for k in range(5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]
# apply
write_at(i, "C", 0, "local")
# blocks
alloc C_local(6) local
...
i 6: C_local(i)

# ---- refused: buffer index out of range, invalid storage scope | MATMUL_2
read_at(i, "C", 5, "local")
# refused BufferIndexOutOfRangeError at block C: the argument `buffer_index` is 5, but block "C" has 2 read region(s)

read_at(i, "C", 0, "nowhere")
# refused InvalidStorageScopeError at block C: unknown storage scope 'nowhere'

# ---- refused: loop position, read after write | STAGES_2
_, j = get_loops("B")
read_at(j, "C", 0, "local")
# refused LoopPositionError at block C, loop j: loop `j` is not an ancestor of block "C" in its scope

write_at(i, "B", 0, "local")
# refused ReadAfterWriteError at loop i, block C: block "C" reads B below loop `i` after its last write there

# ---- refused: write after read | UPDATE
read_at(i, "C", 0, "local")
# refused WriteAfterReadError at loop i, block C: block "C" writes C below loop `i` after, or while, it is read there

# ---- refused: unsafe stage | MATMUL_2
# with A[vi, vk] => T.if_then_else(1 <= vk, A[vi, vk - 1], T.float32(0))
read_at(i, "C", 0, "local")
# refused UnsafeStageError at block C: block "C" cannot use a copy of A: the copy would touch 6 elements from -1 on in a dimension of 6

# ---- scope that is no pipeline is refused | OVERWRITES_ITS_INPUT
(i,) = get_loops("B")
read_at(i, "B", 0, "local")
# refused NotStagePipelineError at block root, block A: the scope block "root" is not a stage pipeline around block "B". A stage pipeline has only blocks whose reads are covered by their producers, and no block that overwrites what an earlier one reads; here block "A" overwrites A, which block "B" reads before
