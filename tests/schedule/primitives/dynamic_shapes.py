"""Programs whose shapes are known only when they run are scheduled like others."""

# ==== loops of one block

# ---- ROW_SUM
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n,))
    for i, k in T.grid(n, m):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]

# ---- parallel | ROW_SUM
parallel(i)
# becomes
...
for i in T.parallel(n):
    for k in range(m):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0.0)
            C[vi] = C[vi] + A[vi, vk]

# ---- a reduction is not parallel | ROW_SUM
parallel(k)
# refused WrongBlockIterTypeError at loop k, block C: the "parallel" cannot be fulfilled with regard to loop `k` because some block iter whose block binding contains the loop var is not data-parallel: axis vk of block "C"

# ---- reorder | ROW_SUM
reorder(k, i)
# becomes
...
for k, i in T.grid(m, n):
    ...

# ---- tiles with a predicate | ROW_SUM
split(i, [None, 16])
reorder(i_0, k, i_1)
parallel(i_0)
decompose_reduction("C", k)
# blocks
parallel i_0 (n + 15) // 16, i_1_init 16: C_init(i_0 * 16 + i_1_init) where i_0 * 16 + i_1_init < n
parallel i_0 (n + 15) // 16, k m, i_1 16: C_update(i_0 * 16 + i_1, +k) where i_0 * 16 + i_1 < n

# ---- TILES_2
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 16, 8))
    C = T.match_buffer(c, (n * 16,))
    for i, k in T.grid(n * 16, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]

# ---- tiles without a predicate | TILES_2
split(i, [None, 16])
split(k, [2, 4])
reorder(k_1, i_0, i_1, k_0)
decompose_reduction("C", k_1)
# blocks
i_0_init n, i_1_init 16: C_init(i_0_init * 16 + i_1_init)
k_1 4, i_0 n, i_1 16, k_0 2: C_update(i_0 * 16 + i_1, +k_0 * 4 + k_1)

# ---- CUBE_2
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, 4, m))
    B = T.match_buffer(b, (n, 4, m))
    for i, j, k in T.grid(n, 4, m):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

# ---- fuse | CUBE_2
fuse(i, j)
parallel(i_j_fused)
# blocks
parallel i_j_fused n * 4, k m: B(i_j_fused // 4, i_j_fused % 4, k)

fuse(j, k)
parallel(j_k_fused)
# blocks
i n, parallel j_k_fused m * 4: B(i, j_k_fused // m, j_k_fused % m)

fuse(i, j, k)
parallel(i_j_k_fused)
# blocks
parallel i_j_k_fused n * m * 4: B(i_j_k_fused // (m * 4), i_j_k_fused % (m * 4) // m, i_j_k_fused % m)

# ---- STAGES_2
@T.prim_func
def main(a: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m))
    C = T.match_buffer(c, (n, m))
    B = T.alloc_buffer((n, m))
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)

# ---- blockize a tile | TILES_2
split(i, [None, 16])
blockize(i_1)
# blocks
i_0 n: C_o(i_0, +0)
    i_1 16: C_init(i_1)
    i_1 16, k 8: C(i_1, +k)

# ---- blockize a symbolic loop | ROW_SUM
blockize(k)
# blocks
i n: C_o(i, +0)
    C_init()
    k m: C(+k)

# ---- tiles that a predicate cuts are not blockized | ROW_SUM
split(i, [None, 16])
blockize(i_1)
# refused SubspaceNotDivisibleError at block C: relates outer and inner loops

# ---- partial sums of partial sums, with a tile of extent 1 that is fused | ROW_SUM
split(k, [None, 1, 8], preserve_unit_iters=True)
fuse(k_1, k_2)
rfactor(k_1_k_2_fused, 1)
*_, k = get_loops("C")
split(k, [None, 4])
*_, k = get_loops("C")
rfactor(k, 1)
# blocks
alloc C_rf(n, 8), C_rf(n, 4)
i n, k_0 (m + 7) // 8, k_1_k_2_fused 8: C_rf(k_1_k_2_fused, i, +k_0) where T.Add(k_0, 0) * 8 + k_1_k_2_fused % 8 < m
i n, k_1_k_2_fused_0 2, k_1_k_2_fused_1 4: C_rf_1(k_1_k_2_fused_1, +k_1_k_2_fused_0, i) where (k_1_k_2_fused_0 * 4 + k_1_k_2_fused_1) % 8 < m
i n, k_1_k_2_fused_1 4: C(+k_1_k_2_fused_1, i) where k_1_k_2_fused_1 % 8 < m

# ==== several blocks

# ---- compute at | STAGES_2
i, _ = get_loops("C")
split(i, [None, 16])
compute_at("B", i_0)
# blocks
alloc B(n, m)
i_0 (n + 15) // 16, ax0 16, ax1 m: B(i_0 * 16 + ax0, ax1) where i_0 * 16 + ax0 < n
i_0 (n + 15) // 16, i_1 16, j m: C(i_0 * 16 + i_1, j) where i_0 * 16 + i_1 < n

# ---- compute at a fused loop | STAGES_2
i, j = get_loops("C")
fuse(i, j)
compute_at("B", i_j_fused)
# blocks
alloc B(n, m)
i_j_fused n * m: B(i_j_fused // m, i_j_fused % m)
i_j_fused n * m: C(i_j_fused // m, i_j_fused % m)

# ---- reverse compute at | STAGES_2
_, j = get_loops("B")
split(j, [None, 16])
reverse_compute_at("C", j_0)
# blocks
alloc B(n, m)
i n, j_0 (m + 15) // 16, j_1 16: B(i, j_0 * 16 + j_1) where j_0 * 16 + j_1 < m
i n, j_0 (m + 15) // 16, ax0 16: C(i, j_0 * 16 + ax0) where j_0 * 16 + ax0 < m

# ---- copies in tiles | ROW_SUM
split(i, [None, 16])
cache_write("C", 0, "local")
reverse_compute_at(C_local, i_0)
cache_read("C", 0, "local")
compute_at(A_local, i_0)
parallel(i_0)
# blocks
alloc C_local(n) local, A_local(n, m) local
parallel i_0 (n + 15) // 16, ax0 16, ax1 m: A_local(i_0 * 16 + ax0, ax1) where i_0 * 16 + ax0 < n
parallel i_0 (n + 15) // 16, i_1 16, k m: C(i_0 * 16 + i_1, +k) where i_0 * 16 + i_1 < n
parallel i_0 (n + 15) // 16, ax0 16: C_local(i_0 * 16 + ax0) where i_0 * 16 + ax0 < n

# ---- inlining | STAGES_2
compute_inline("B")
# blocks
i n, j m: C(i, j)

reverse_compute_inline("C")
# blocks
i n, j m: B(i, j)
