"""Fusing loops."""

# ==== the new loop

# ---- three loops | CUBE
fuse(i, j, k)
# becomes
for i_j_k_fused in range(192):
    with T.block("B"):
        vi = T.axis.spatial(4, i_j_k_fused // 48)
        vj = T.axis.spatial(6, i_j_k_fused % 48 // 8)
        vk = T.axis.spatial(8, i_j_k_fused % 8)
        B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2.0)

# ---- an axis of a unit loop becomes zero | CUBE
# with 6 => 1
fuse(i, j, k)
# blocks
i_j_k_fused 32: B(i_j_k_fused // 8, 0, i_j_k_fused % 8)

# ---- an outermost unit loop | CUBE
# with 4 => 1
fuse(i, j, k)
# blocks
i_j_k_fused 48: B(0, i_j_k_fused // 8, i_j_k_fused % 8)

# ---- unit loops around stay in bindings unless told otherwise | VECTOR
# with i in range(128 => u, i, j in T.grid(1, 8, 12
# with 128,)), B: T.Buffer((128 => 96,)), B: T.Buffer((96 ; 128, i => 96, u * 96 + i * 12 + j
fuse(i, j)
# blocks
u 1, i_j_fused 96: B(u * 96 + i_j_fused)

# ---- the new loop is serial | MATRIX
# with for i, j in T.grid(8, 12): => for i in T.parallel(8):\n  for j in range(12):
fuse(i, j)
# blocks
i_j_fused 96: B(i_j_fused // 12, i_j_fused % 12)

# with for i, j in T.grid(8, 12): => for i in T.vectorized(8):\n  for j in range(12):
fuse(i, j)
# blocks
i_j_fused 96: B(i_j_fused // 12, i_j_fused % 12)

# with for i, j in T.grid(8, 12): => for i in T.unroll(8):\n  for j in range(12):
fuse(i, j)
# blocks
i_j_fused 96: B(i_j_fused // 12, i_j_fused % 12)

# ---- TRIANGLE
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj] * T.float32(2)

# ---- the new loop has the widest dtype | TRIANGLE
# with (8 => (4 ; i + 1 => T.int64(8) ; 4, j => T.int64(8), j
fuse(i, j)
# blocks
i_j_fused T.int64(32): B(T.Cast("int32", i_j_fused // T.int64(8)), i_j_fused % T.int64(8))

# ==== after other steps

# ---- loops of tiles | MATRIX
split(i, [2, 4])
split(j, [4, 3])
reorder(i_0, j_0, i_1, j_1)
fuse(i_0, j_0)
# blocks
i_0_j_0_fused 8, i_1 4, j_1 3: B(i_0_j_0_fused // 4 * 4 + i_1, i_0_j_0_fused % 4 * 3 + j_1)

# ---- what was split is fused again | MATRIX
split(j, [3, 4])
fuse(j_0, j_1)
# blocks
i 8, j_0_j_1_fused 12: B(i, j_0_j_1_fused)

# ---- neighbours of a split join again | MATRIX
split(j, [2, 3, 2])
fuse(j_1, j_2)
# blocks
i 8, j_0 2, j_1_j_2_fused 6: B(i, j_0 * 6 + j_1_j_2_fused)

# ---- a predicate is substituted | MATRIX
split(j, [None, 5])
fuse(j_0, j_1)
# blocks
i 8, j_0_j_1_fused 15: B(i, j_0_j_1_fused) where j_0_j_1_fused // 5 * 5 + j_0_j_1_fused % 5 < 12

# ---- several blocks below
@T.prim_func
def main(A: T.Buffer((10, 3)), B: T.Buffer((10, 3)), C: T.Buffer((10, 3))):
    for i, j in T.grid(10, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
# apply
fuse(i, j)
# blocks
i_j_fused 30: B(i_j_fused // 3, i_j_fused % 3)
i_j_fused 30: C(i_j_fused // 3, i_j_fused % 3)

# ---- OPAQUE
@T.prim_func
def main(A: T.Buffer((3, 5, 4)), B: T.Buffer((3, 5, 4))):
    for i, j in T.grid(3, 5):
        with T.block("row"):
            T.reads(A[i, j, 0:4])
            T.writes(B[i, j, 0:4])
            for k in range(4):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                    B[vi, vj, vk] = A[vi, vj, vk] + T.float32(1)

# ---- a block without axes is entered | OPAQUE
fuse(i, j)
# blocks
i_j_fused 15: row()
    k 4: B(i_j_fused // 5, i_j_fused % 5, k)

# ---- symbolic extents | MATRIX
# with def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):\nfor i, j in T.grid(8, 12): => def main(a: T.handle, b: T.handle, n: T.int32, m: T.int32):\n    A = T.match_buffer(a, (n, m))\n    B = T.match_buffer(b, (n, m))\n    for i, j in T.grid(n, m):
fuse(i, j)
# blocks
i_j_fused n * m: B(i_j_fused // m, i_j_fused % m)

# ==== handles and trace

# ---- handles | MATRIX
B = get_block("B")
i, j = get_loops(B)
i_j_fused = fuse(i, j)
(i_j_fused_2,) = get_loops(B)
# handles
B: block "B"
i: gone, fuse replaced it
j: gone, fuse replaced it
i_j_fused: for i_j_fused in range(96)
i_j_fused_2: for i_j_fused in range(96)

# ---- trace | MATRIX
fuse(i, j, preserve_unit_iters=False)
# recorded
l6 = sch.fuse(l1, l5, preserve_unit_iters=False)
["Fuse", ["l1", "l5"], [0], ["l6"]]

fuse(i, j)
# recorded
l6 = sch.fuse(l1, l5, preserve_unit_iters=True)
["Fuse", ["l1", "l5"], [1], ["l6"]]

# ==== refused

# ---- refused: has annotation or thread binding, outer not inner parent | CUBE
annotate(j, "pragma", 1)
fuse(i, j, k)
# refused HasAnnotationOrThreadBindingError at loop j: `j` has one

bind(k, "threadIdx.x")
fuse(i, j, k)
# refused HasAnnotationOrThreadBindingError at loop k: `k` has one

fuse(i, k)
# refused OuterNotInnerParent at loop i, loop k: loop `i` is not the parent of loop `k`

fuse(j, i)
# refused OuterNotInnerParent at loop j, loop i: loop `j` is not the parent of loop `i`

fuse(i, i)
# refused OuterNotInnerParent at loop i, loop i: not the parent

# ---- refused: outer not inner parent | OPAQUE
fuse(j, k)
# refused OuterNotInnerParent at loop j, loop k: not the parent

# ---- refused: not only child, loop not start with zero
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for i in range(8):
        for j in range(2, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
# apply
fuse(i, j)
# refused LoopNotStartWithZeroError at loop j: starts at 2

@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4)), C: T.Buffer((10,))):
    for i in range(10):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi, 0]
# apply
fuse(i, j)
# refused NotOnlyChildError at loop i, loop j: loop `j` is not the only child of loop `i`

# ---- refused: dependent loop | TRIANGLE
fuse(i, j)
# refused DependentLoopError at loop j: the range of loop `j` is dependent on the loop variable i

# ---- no loop at all | CUBE
fuse()
# refused ArgumentError: `loops` is empty: fuse takes at least one loop

# ---- loops without iterations | MATRIX
# with 8, 12 => 0, 8 ; 0, 8)), B: T.Buffer((0 => 4, 8)), B: T.Buffer((4 ; ] * T.float32(2) => ]
fuse(i, j)
# blocks
i_j_fused 0: B(i_j_fused // 8, i_j_fused % 8)
