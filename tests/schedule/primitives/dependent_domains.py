"""Axes whose domains depend on a loop: what replaces the loop replaces it there, too."""

# ---- ONE
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

# ---- a split loop is split in the domains of axes | ONE
split(i, [2, 4])
# becomes
for i_0, i_1 in T.grid(2, 4):
    for j in range(i_0 * 4 + i_1 + 1):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(i_0 * 4 + i_1 + 1, j)
            B[vi, vj] = A[vi, vj] + T.float32(1.0)

# ---- TRIANGLE
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8, 8))
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(8):
        for j in range(i + 1):
            with T.block("C"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] += A[vi, vj]

# ---- domains follow the loops that a primitive makes | TRIANGLE
_, j = get_loops("C")
read_at(j, "C", 0, "local")
i, _ = get_loops("C")
split(i, [2, 4])

i, _ = get_loops("B")
i_2, _ = get_loops("C")
merge(i, i_2)

i, _ = get_loops("C")
loop_partition(i, [3, None])

# ---- a copy outside of the loops needs domains without them | ONE
# with vj] + => 7 - vj] +
pad_einsum("B", [1, 4])
# refused DependentLoopError at block B: axis vj

# with vj] + => 7 - vj] +
reindex("B", ("read", 0))
# refused DependentLoopError at block B: axis vj

# with vj] + => 7 - vj] +
cache_index("B", "local")
# refused DependentLoopError at block B: axis vj

# with vj] + => 7 - vj] +
reindex_cache_read("B", 0, "local", lambda i, j: (j, i))
# refused DependentLoopError at block B: axis vj

# ---- without checks a block below copied loops is found though its domain names them
@T.prim_func
def main(A: T.Buffer((8, 8, 4)), C: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            for k in range(4):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] += A[vi, vj, vk]
# apply
# enable_check=False
decompose_reduction("C", i)
# blocks, not interpreted
i_init 8, j_init i_init + 1: C_init(i_init, j_init)
i 8, j i + 1, k 4: C_update(i, j, +k)
