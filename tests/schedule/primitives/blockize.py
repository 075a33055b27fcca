"""blockize of a loop: what the loop runs becomes the body of a block of its own."""

# ==== a loop

# ---- the inner loop of a tile | TILES
blockize(i_1)
# becomes
for i_0 in range(4):
    with T.block("B_o"):
        vi_o = T.axis.spatial(4, i_0)
        for i_1 in range(8):
            with T.block("B"):
                vi_i = T.axis.spatial(8, i_1)
                B[vi_o * 8 + vi_i] = A[vi_o * 8 + vi_i] * T.float32(2.0)

# ---- NO_AXES
@T.prim_func
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    for i, j in T.grid(4, 8):
        with T.block("C"):
            T.reads(A[i, j])
            T.writes(C[i, j])
            C[i, j] = A[i, j] * T.float32(2)

# ---- regions of a block without axes cover what its loops touch | NO_AXES
blockize(i)
# blocks
C_o()
    i 4, j 8: C()

# ---- CUT_BUT_SEPARATE
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(j <= i * 2)
            B[vi, vj] = A[vi, vj]

# ---- CUT
@T.prim_func
def main(A: T.Buffer((30,)), B: T.Buffer((30,))):
    for i_0, i_1 in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.spatial(30, i_0 * 8 + i_1)
            T.where(i_0 * 8 + i_1 < 30)
            B[vi] = A[vi]

# ---- bindings that are no sums are divided if each is of one side | MATRIX
# with 8, 12 => 6, 8 ; 6, 8)), B: T.Buffer((6 => 4, 8)), B: T.Buffer((4
# with vi, vj = T.axis.remap("SS", [i, j]) => vi = T.axis.spatial(4, T.min(i, 3))\nvj = T.axis.spatial(8, j)
blockize(j)
# blocks
i 6: B_o(T.min(i, 3), 0)
    j 8: B(j)

# ==== predicates

# ---- a predicate on outer loops goes to the outer block | MATRIX
# with i, j in T.grid(8, 12 => i_0, i_1, j in T.grid(4, 3, 8
# with 8, 12)), B: T.Buffer((8, 12 => 10, 8)), B: T.Buffer((10, 8
# with vi, vj = T.axis.remap("SS", [i, j]) => vi = T.axis.spatial(10, i_0 * 3 + i_1)\nvj = T.axis.spatial(8, j)\nT.where(i_0 * 3 + i_1 < 10)
blockize(j)
# blocks
i_0 4, i_1 3: B_o(i_0 * 3 + i_1, 0) where i_0 * 3 + i_1 < 10
    j 8: B(j)

# ---- each conjunct goes to its side
@T.prim_func
def main(A: T.Buffer((10, 7)), B: T.Buffer((10, 7))):
    for i_0, i_1, j_0, j_1 in T.grid(4, 3, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(10, i_0 * 3 + i_1)
            vj = T.axis.spatial(7, j_0 * 4 + j_1)
            T.where(i_0 * 3 + i_1 < 10 and j_0 * 4 + j_1 < 7)
            B[vi, vj] = A[vi, vj] * T.float32(2)
# apply
blockize(j_0)
# blocks
i_0 4, i_1 3: B_o(i_0 * 3 + i_1, 0) where i_0 * 3 + i_1 < 10
    j_0 2, j_1 4: B(j_0 * 4 + j_1) where j_0 * 4 + j_1 < 7

# ==== reductions

# ---- MATMUL_2
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((12, 6)), C: T.Buffer((8, 6))):
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(2, 2, 3, 4, 3, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(6, j_0 * 3 + j_1)
            vk = T.axis.reduce(12, k_0 * 4 + k_1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ---- a reduction with steps outside initialises in the outer block | MATMUL_2
blockize(i_1)
# blocks
i_0 2, j_0 2, k_0 3: C_o(i_0, j_0, +k_0)
    i_1 4, j_1 3: C_init(i_1, j_1)
    i_1 4, j_1 3, k_1 4: C(i_1, j_1, +k_1)

# ---- REPEATED
@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((6,))):
    for i, r, k in T.grid(6, 2, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]

# ==== unit extents

# ---- UNITS
@T.prim_func
def main(A: T.Buffer((1, 8)), B: T.Buffer((1, 8))):
    for i_0, j_0, i_1, j_1 in T.grid(1, 2, 1, 4):
        with T.block("B"):
            vi = T.axis.spatial(1, i_0 + i_1)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            B[vi, vj] = A[vi, vj] * T.float32(2)

# ---- axes of unit extent stay bound to their loops | UNITS
blockize(i_1)
# blocks
i_0 1, j_0 2: B_o(i_0, j_0)
    i_1 1, j_1 4: B(j_1)

# ---- axes of unit extent become zero on demand | UNITS
blockize(i_1, preserve_unit_iters=False)
# blocks
i_0 1, j_0 2: B_o(0, j_0)
    i_1 1, j_1 4: B(j_1)

# ==== nests and handles

# ---- a block around a block | TILES
blockize(i_1)
blockize(i_0)
# blocks
B_o_o(0)
    i_0 4: B_o(i_0)
        i_1 8: B(i_1)

# ---- the outer block is scheduled like any other | MATMUL_2
blockize(i_1)
reorder(j_0, i_0)
decompose_reduction(C_o, k_0)
# blocks
j_0 2, i_0 2: C_o_init(i_0, j_0)
    i_1 4, j_1 3: C_init(i_1, j_1)
j_0 2, i_0 2, k_0 3: C_o_update(i_0, j_0, +k_0)
    i_1 4, j_1 3, k_1 4: C(i_1, j_1, +k_1)

# ==== trace

# ---- trace | TILES
blockize(i_1)
# recorded
b3 = sch.blockize(target=l2, preserve_unit_iters=True)
["Blockize", ["l2"], [1], ["b3"]]

# ==== refused

# ---- refused: non single child block | TILED_STAGES
blockize(i_0)
# refused NonSingleChildBlockError at loop i_0: loop `i_0` should have only one child block, but it has 2

# ---- refused: non single child block, subspace not divisible
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((11,))):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.opaque(11, i + j)
            B[vi] = A[vi]
# apply
blockize(j)
# refused SubspaceNotDivisibleError at block B: cannot be blockized with the loops ['j'] inside: axis vi is bound to `i + j`

@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    for i_0, i_1, i_2 in T.grid(4, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(32, i_0 + i_1 * 16 + i_2 * 4)
            B[vi] = A[vi]
# apply
blockize(i_2)
# refused SubspaceNotDivisibleError at block B: axis vi is bound to

# ---- refused: subspace not divisible | CUT
blockize(i_1)
# refused SubspaceNotDivisibleError at block B: its predicate `i_0 * 8 + i_1 < 30` relates outer and inner loops

# ---- refused: subspace not divisible (2) | CUT_BUT_SEPARATE
blockize(j)
# refused SubspaceNotDivisibleError at block B: its predicate `j <= i * 2` relates outer and inner loops

# ---- refused: subspace not divisible (3)
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj]
# apply
blockize(j)
# refused SubspaceNotDivisibleError at block B: the range of j depends on an outer loop

# ---- refused: subspace not divisible (4) | REPEATED
blockize(r)
# refused SubspaceNotDivisibleError at block B: loop `r` runs the same steps several times

# ---- refused: subspace not divisible (5)
@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((6,))):
    for i, k in T.grid(6, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k >= 1)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
# apply
blockize(i)
# refused SubspaceNotDivisibleError at block B: its predicate `k >= 1` may skip the first step

@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((6,))):
    for i, k in T.grid(6, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk], B[0:6])
            T.writes(B[vi])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk] + B[5 - vi]
# apply
blockize(i)
# refused SubspaceNotDivisibleError at block B: it reads B[5 - vi] besides the element that it accumulates into

@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((6,))):
    for i, k in T.grid(6, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(B[vi])
            t = T.alloc_buffer((1,))
            with T.init():
                t[0] = T.float32(0)
                B[vi] = t[0]
            B[vi] = B[vi] + A[vi, vk]
# apply
blockize(k)
# refused SubspaceNotDivisibleError at block B: its init stores to a buffer of the block itself

# ---- what is no loop and no list of blocks | TILES
get_loops("B")
# becomes
...

blockize(B)
# refused ArgumentError: `target` takes a LoopRV or a list of BlockRVs, got BlockRV: BlockRV(b0: block "B")

i_0, _ = get_loops(B)
blockize([B, i_0])
# refused ArgumentError: `target[1]` takes a BlockRV or the name of a block, got LoopRV: LoopRV(l1: fo...0 in range(4))
