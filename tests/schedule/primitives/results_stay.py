"""Sequences that once changed a result: they are refused now, or done right."""

# ---- MATMUL_2
A = placeholder((6, 8))
B = placeholder((8, 7))
k = reduce_axis((0, 8))
C = compute((6, 7), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- a reduction does not move below a parallel loop over its axis | MATMUL_2
cache_read("C", 0, "local")
parallel(ax1)
# becomes
A_local = T.alloc_buffer((6, 8), scope="local")
for ax0 in range(6):
    for ax1 in T.parallel(8):
        with T.block("A_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_local[v0, v1] = A[v0, v1]
for i, j, k in T.grid(6, 7, 8):
    with T.block("C"):
        ...
        C[vi, vj] = C[vi, vj] + A_local[vi, vk] * B[vk, vj]

cache_read("C", 0, "local")
parallel(ax1)
reverse_compute_at("C", ax1)
# refused WrongBlockIterTypeError at block C, loop ax1: block "C" cannot move under loop `ax1`: that loop runs its iterations concurrently, but would drive its axis vk, which is not data-parallel

# ---- PADDED
A = placeholder((7,))
P = compute((11,), lambda i: T.if_then_else(all(2 <= i, i < 9), A[i - 2], 0))

# ---- a consumer that runs further than its producer is not inlined | PADDED
cache_read("P", 0, "local")
# becomes
A_local = T.alloc_buffer((7,), scope="local")
for ax0 in range(7):
    with T.block("A_local"):
        v0 = T.axis.spatial(7, ax0)
        A_local[v0] = A[v0]
for i in range(11):
    with T.block("P"):
        vi = T.axis.spatial(11, i)
        P[vi] = T.if_then_else(2 <= vi and vi < 9, A_local[vi - 2], T.float32(0.0))

cache_read("P", 0, "local")
reverse_compute_inline("P")
# refused BodyAnalysisError at block P: the body of block "P" cannot be inlined: it runs for elements that 'A_local' does not store

# ---- a cache inside a loop does not copy beyond the buffer
A = placeholder((4, 6), "int32")
B = compute((6, 4), lambda i, j: A[j, i] * 3)
C = compute((6, 4), lambda i, j: B[i, j] + i)
# apply
i, _ = get_loops("B")
split(i, [None, 4])
reverse_compute_at("C", i_0)
cache_read("C", 0, "global")
# blocks
alloc B(6, 4) int32, B_global(6, 4) int32
i_0 2, i_1 4, j 4: B(i_0 * 4 + i_1, j) where i_0 * 4 + i_1 < 6
i_0 2, ax0 T.min(6 - i_0 * 4, 4), ax1 4: B_global(i_0 * 4 + ax0, ax1)
i_0 2, ax0 4, ax1 4: C(i_0 * 4 + ax0, ax1) where i_0 * 4 + ax0 < 6

# ---- a consumer that runs further than its producer does not follow it | PADDED
cache_read("P", 0, "local")
get_loops(A_local)
# becomes
A_local = T.alloc_buffer((7,), scope="local")
for ax0 in range(7):
    with T.block("A_local"):
        v0 = T.axis.spatial(7, ax0)
        A_local[v0] = A[v0]
for i in range(11):
    with T.block("P"):
        vi = T.axis.spatial(11, i)
        P[vi] = T.if_then_else(2 <= vi and vi < 9, A_local[vi - 2], T.float32(0.0))

cache_read("P", 0, "local")
reverse_compute_at("P", ax0)
# refused NotRegionCoverError at block P, loop ax0, block A_local: block "P" cannot move under loop `ax0`, because some of its instances read elements that block "A_local" does not store, and these instances would not run there

# ---- REPEATED
@T.prim_func
def main(A: T.Buffer((5, 4), "float32"), D: T.Buffer((5, 6), "float32")):
    C = T.alloc_buffer((5,))
    for j in range(6):
        for i, k in T.grid(5, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        for i in range(5):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi]

# ---- the init of a repeated reduction stays inside the loop that repeats it | REPEATED
_, i, _ = get_loops("C")
decompose_reduction("C", i)
# blocks
alloc C(5)
j 6, i_init 5: C_init(i_init)
j 6, i 5, k 4: C_update(i, +k)
j 6, i 5: D(i, j)

decompose_reduction("C", j)
# refused LoopPositionError at loop j, block C: the init of block "C" cannot move before loop `j`: below, the steps of the reduction do not each run once with the initialising step first, because loop `j` runs the same steps several times

# ---- a cache of what is read under a condition stays in bounds | PADDED
cache_read("P", 0, "global")
compute_at(A_global, i)
cache_write(A_global, 0, "local")
# blocks
alloc A_global(7), A_global_local(7) local
i 11: A_global(i - 2) where 2 <= i and i < 9
i 11, ax0 1: A_global_local(i - 2 + ax0) where i - 2 + ax0 >= 0 and i - 2 + ax0 < 7
i 11: P(i)

# ---- LOOP_REPEATS_REDUCTION_DOES
@T.prim_func
def main(A: T.Buffer((5, 4), "float32"), C: T.Buffer((5,), "float32")):
    # with T.block("root"):
    for j, i, k in T.grid(6, 5, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0.0)
            C[vi] = C[vi] + A[vi, vk]

# ---- a loop that repeats a reduction does not move inside it | LOOP_REPEATS_REDUCTION_DOES
reorder(i, j)
# becomes
for i, j, k in T.grid(5, 6, 4):
    ...

reorder(i, j)
reorder(k, j)
# refused BlockPropertyError at loop k: in the new order, the steps of a reduction below loop `k` do not each run once with the initialising step first, because loop `j` runs the same steps several times
