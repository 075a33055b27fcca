"""Staging what a block touches in a buffer of another layout."""

# ---- BEFORE
A = placeholder((7, 4))
B = compute((7, 4), lambda i, j: A[i, j] * 2)
C = compute((7, 4), lambda i, j: B[i, j] + 1)

# ---- read of a parameter | BEFORE
reindex_cache_read("B", 0, "local", lambda i, j: (j, i))
# becomes
B = T.alloc_buffer((7, 4))
A_local = T.alloc_buffer((4, 7), scope="local")
for i, j in T.grid(7, 4):
    with T.block("A_local"):
        vi, vj = T.axis.remap("SS", [i, j])
        A_local[vj, vi] = A[vi, vj]
for i, j in T.grid(7, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A_local[vj, vi] * T.float32(2.0)
...

# ---- MATMUL_2
A = placeholder((4, 6))
B = placeholder((6, 7))
k = reduce_axis((0, 6))
C = compute((4, 7), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- axes and loops that are not used are left out | MATMUL_2
reindex_cache_read("C", 0, "global", lambda i, j, k: (3 - i, k))
# blocks
alloc A_global(4, 6)
i 4, k 6: A_global(i, k)
i 4, j 7, k 6: C(i, j, +k)

# ---- write of a reduction | MATMUL_2
reindex_cache_write("C", 0, "global", lambda i, j, k: (j, i))

# ---- predicates are copied | BEFORE
i, _ = get_loops("B")
split(i, [None, 3])
reindex_cache_read("B", 0, "global", lambda i, j: (j, i))
reindex_cache_write("B", 0, "global", lambda i, j: (j, i))

# ---- a block that it reads elements that differ from those than it writes | BEFORE
# with A[ => B[vi, vj] * B[0, 0] + A[
reindex_cache_write("B", 0, "global", lambda i, j: (j, i))
# refused UnsafeStageError at block B: it reads elements that differ from those

# ---- refused: invalid storage scope, buffer index out of range, reindex cache read write not match | BEFORE
reindex_cache_read("B", 0, "nowhere", lambda i, j: (j, i))
# refused InvalidStorageScopeError at block B: unknown storage scope 'nowhere'

reindex_cache_read("B", 3, "global", lambda i, j: (j, i))
# refused BufferIndexOutOfRangeError at block B: the argument `buffer_index` is 3, but block "B" has 1 read region(s)

reindex_cache_read("B", 0, "global", lambda i, j: (i,))
# refused ReindexCacheReadWriteNotMatchError at block B: axis vj of block "B" occurs in the indices of A, but not in the index map

# ---- refused: reindex cache read write not match | MATMUL_2
reindex_cache_read("C", 0, "global", lambda i, j, k: (i, j))
# refused ReindexCacheReadWriteNotMatchError at block C: axis vj of block "C" occurs in the index map, but not in the indices of A

# ---- refused: index map not applicable to block iter, negative index, unsafe stage | BEFORE
reindex_cache_read("B", 0, "global", lambda i: (i, i))
# refused IndexMapNotApplicableToBlockIterError at block B: the index map takes 1 indices, but block "B" has 2 axes

reindex_cache_read("B", 0, "global", lambda i, j: (i - T.int64(1), j))
# refused NegativeIndexError at block B: the index map lambda i, j: (i - 1, j,) may give indices of the copy below 0

reindex_cache_read("B", 0, "global", lambda i, j: (i // T.int64(2), j))
# refused UnsafeStageError at block B: block "B" cannot use a copy of A: the index map lambda vi, vj: (vi // 2, vj,) may map two points to one place on this shape: the pieces of an iterator overlap or leave a gap

reindex_cache_read("B", 0, "global", lambda i, j: (i + j,))
# refused UnsafeStageError at block B: block "B" cannot use a copy of A: the index map lambda vi, vj: (vi + vj,) may map two points to one place on this shape: the scales of added iterators leave gaps

# ---- refused: not single write block | BEFORE
# with C[vi, vj] = B => B[vi, vj] = A
reindex_cache_write("B", 0, "global", lambda i, j: (j, i))
# refused NotSingleWriteBlock at block root: the buffer B is expected to be written by a single block in the scope, but 2 write it

# ---- elements that memory decides are refused | VECTOR
# with 128 => 7 ; )): => ), N: T.Buffer((7,), "int32")):
# with vi = T.axis.spatial(7, i)\nB[vi] = A[vi] * T.float32(2) => vi = T.axis.opaque(7, i)\nB[T.max(T.min(N[vi], 6), 0)] = A[vi]\nN[vi] = 3
reindex_cache_write("B", 0, "global", lambda i: (i,))
# refused UnsafeStageError at block B: the elements that it touches depend on values in memory

# ---- more than one element an instance is refused
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:6])
            T.writes(C[vi])
            C[vi] = T.float32(0)
            for k in range(6):
                C[vi] = C[vi] + A[vi, k]
# apply
reindex_cache_read("C", 0, "global", lambda i: (i,))
# refused NotSinglePointAccess at block C: not a single point

# ---- scope that is no pipeline is refused | OVERWRITES_ITS_INPUT
reindex_cache_read("B", 0, "global", lambda i: (i,))
# refused NotStagePipelineError at block root, block A: the scope block "root" is not a stage pipeline around block "B". A stage pipeline has only blocks whose reads are covered by their producers, and no block that overwrites what an earlier one reads; here block "A" overwrites A, which block "B" reads before
