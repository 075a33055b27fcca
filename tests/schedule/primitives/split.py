"""Splitting a loop."""

# ==== the new nest

# ---- factors that divide | VECTOR
split(i, [2, 16, 4])
# becomes
for i_0, i_1, i_2 in T.grid(2, 16, 4):
    with T.block("B"):
        vi = T.axis.spatial(128, i_0 * 64 + i_1 * 4 + i_2)
        B[vi] = A[vi] * T.float32(2.0)

# ---- one factor may be inferred | VECTOR
split(i, [None, 16, 4])
# blocks
i_0 2, i_1 16, i_2 4: B(i_0 * 64 + i_1 * 4 + i_2)

split(i, [2, 16, None])
# blocks
i_0 2, i_1 16, i_2 4: B(i_0 * 64 + i_1 * 4 + i_2)

# ---- an inferred factor that does not divide is rounded up | VECTOR
split(i, [None, 3, 4])
# blocks
i_0 11, i_1 3, i_2 4: B(i_0 * 12 + i_1 * 4 + i_2) where (i_0 * 3 + i_1) * 4 + i_2 < 128

# ---- an inner factor can be the rounded one | VECTOR
split(i, [3, None])
# blocks
i_0 3, i_1 43: B(i_0 * 43 + i_1) where i_0 * 43 + i_1 < 128

# ---- a product beyond the extent needs a predicate | VECTOR
split(i, [10, 13])
# blocks
i_0 10, i_1 13: B(i_0 * 13 + i_1) where i_0 * 13 + i_1 < 128

# ---- a single factor renames the loop | VECTOR
split(i, [None])
# blocks
i_0 128: B(i_0)

# ---- a factor larger than the extent | VECTOR
split(i, [None, 200])
# blocks
i_0 1, i_1 200: B(i_0 * 200 + i_1) where i_0 * 200 + i_1 < 128

# ---- unit loops stay in bindings unless told otherwise | VECTOR
split(i, [2, 1, 64])
# blocks
i_0 2, i_1 1, i_2 64: B(i_0 * 64 + i_1 * 64 + i_2)

split(i, [2, 1, 64], preserve_unit_iters=False)
# blocks
i_0 2, i_1 1, i_2 64: B(i_0 * 64 + i_2)

split(i, [1, 128])
# blocks
i_0 1, i_1 128: B(i_0 * 128 + i_1)

split(i, [1, 128], preserve_unit_iters=False)
# blocks
i_0 1, i_1 128: B(i_1)

split(i, [128, 1])
# blocks
i_0 128, i_1 1: B(i_0 + i_1)

split(i, [128, 1], preserve_unit_iters=False)
# blocks
i_0 128, i_1 1: B(i_0)

# ---- disable predication leaves the predicate out | VECTOR
split(i, [None, 3, 4], disable_predication=True)
# blocks, not interpreted
i_0 11, i_1 3, i_2 4: B(i_0 * 12 + i_1 * 4 + i_2)

# ---- sampled factors | VECTOR
v = sample_categorical([4, 8], [0.5, 0.5], decision=1)
split(i, [None, v * 2, v])
# blocks
i_0 1, i_1 16, i_2 8: B(i_0 * 128 + i_1 * 8 + i_2)

# ---- a sampled tile | VECTOR
v, v_2, v_3 = sample_perfect_tile(i, 3, decision=[4, 2, 16])
split(i, [v, v_2, v_3])
# blocks
i_0 4, i_1 2, i_2 16: B(i_0 * 32 + i_1 * 16 + i_2)

# ---- the new loops are serial | VECTOR
# with range => T.parallel
split(i, [8, 16])
# blocks
i_0 8, i_1 16: B(i_0 * 16 + i_1)

# with range => T.vectorized
split(i, [8, 16])
# blocks
i_0 8, i_1 16: B(i_0 * 16 + i_1)

# with range => T.unroll
split(i, [8, 16])
# blocks
i_0 8, i_1 16: B(i_0 * 16 + i_1)

# ---- SHIFTED
@T.prim_func
def main(A: T.Buffer((128,)), B: T.Buffer((128,))):
    for i in range(4, 128):
        with T.block("B"):
            vi = T.axis.spatial(128, i)
            B[vi] = A[vi] * T.float32(2)

# ---- int64 loops | SHIFTED
# with 4, 128 => T.int64(128) ; 128, i => T.int64(128), i
split(i, [None, 12])
# blocks
i_0 T.int64(11), i_1 T.int64(12): B(i_0 * T.int64(12) + i_1) where i_0 * T.int64(12) + i_1 < T.int64(128)

# ==== among other loops

# ---- MATMUL_2
A = placeholder((5, 6))
B = placeholder((6, 4))
k = reduce_axis((0, 6))
C = compute((5, 4), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- a reduction loop between others | MATMUL_2
split(k, [None, 4])
split(j, [None, 2])
# blocks
i 5, j_0 2, j_1 2, k_0 2, k_1 4: C(i, j_0 * 2 + j_1, +k_0 * 4 + k_1) where k_0 * 4 + k_1 < 6

# ---- a part is split again | VECTOR
split(i, [16, 8])
split(i_0, [None, 4])
# blocks
i_0_0 4, i_0_1 4, i_1 8: B(i_0_0 * 32 + i_0_1 * 8 + i_1)

# ---- an earlier predicate is kept | VECTOR
# with vi = T.axis.spatial(128, i) => vi = T.axis.spatial(128, i)\nT.where(i < 100)
split(i, [None, 3])
# blocks
i_0 43, i_1 3: B(i_0 * 3 + i_1) where i_0 * 3 + i_1 < 100 and i_0 * 3 + i_1 < 128

# ---- each block below gets the predicate
@T.prim_func
def main(A: T.Buffer((10, 3)), B: T.Buffer((10, 3)), C: T.Buffer((10,))):
    for i in range(10):
        for j in range(3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi, 0]
# apply
split(i, [None, 4])
# blocks
i_0 3, i_1 4, j 3: B(i_0 * 4 + i_1, j) where i_0 * 4 + i_1 < 10
i_0 3, i_1 4: C(i_0 * 4 + i_1) where i_0 * 4 + i_1 < 10

# ---- BLOCK_WITHOUT_AXES_ENTERED
@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4))):
    for i in range(10):
        with T.block("row"):
            T.reads(A[i, 0:4])
            T.writes(B[i, 0:4])
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)

# ---- a block without axes is entered | BLOCK_WITHOUT_AXES_ENTERED
split(i, [None, 2, 2])
# blocks
i_0 3, i_1 2, i_2 2: row() where (i_0 * 2 + i_1) * 2 + i_2 < 10
    j 4: B(i_0 * 4 + i_1 * 2 + i_2, j)

# ---- a block with axes is not entered | BLOCK_WITHOUT_AXES_ENTERED
# with T.reads(A[i, 0:4])\nT.writes(B[i, 0:4]) => vi_o = T.axis.spatial(10, i)\nT.reads(A[vi_o, 0:4])\nT.writes(B[vi_o, 0:4])
# with vi, vj = T.axis.remap("SS", [i, j]) => vi = T.axis.spatial(10, vi_o)\nvj = T.axis.spatial(4, j)
split(i, [None, 3])
# blocks
i_0 4, i_1 3: row(i_0 * 3 + i_1) where i_0 * 3 + i_1 < 10
    j 4: B(vi_o, j)

# ---- a binding that is no affine map is substituted as it is | VECTOR
# with i) => i * i % 128)
split(i, [8, 4, 4])
# blocks
i_0 8, i_1 4, i_2 4: B(((i_0 * 4 + i_1) * 4 + i_2) * ((i_0 * 4 + i_1) * 4 + i_2) % 128)

# ==== symbolic extents

# ---- a symbolic extent | SYMBOLIC
split(i, [None, 16])
# blocks
i_0 (n + 15) // 16, i_1 16: B(i_0 * 16 + i_1) where i_0 * 16 + i_1 < n

split(i, [8, None])
# blocks
i_0 8, i_1 (n + 7) // 8: B(i_0 * ((n + 7) // 8) + i_1) where i_0 * ((n + 7) // 8) + i_1 < n

# ---- a symbolic extent with a unit inner loop needs no predicate | SYMBOLIC
split(i, [None, 1])
# blocks
i_0 n, i_1 1: B(i_0 + i_1)

# ---- disable predication promises that a symbolic extent is a multiple | SYMBOLIC
split(i, [None, 4], disable_predication=True)
# blocks, not interpreted
i_0 (n + 3) // 4, i_1 4: B(i_0 * 4 + i_1)

# ---- factors that provably cover a symbolic extent | SYMBOLIC
# with n) => T.min(n, 16))
split(i, [4, 4])
# blocks
i_0 4, i_1 4: B(i_0 * 4 + i_1) where i_0 * 4 + i_1 < T.min(n, 16)

# ==== handles

# ---- handles | VECTOR
B = get_block("B")
(i,) = get_loops(B)
i_0, i_1 = split(i, [None, 4])
i_0_2, i_1_2 = get_loops(B)
# handles
B: block "B"
i: gone, split replaced it
i_0: for i_0 in range(32)
i_1: for i_1 in range(4)
i_0_2: for i_0 in range(32)
i_1_2: for i_1 in range(4)

# ---- trace | VECTOR
split(i, [None, 3, 4], preserve_unit_iters=False)
# recorded
l2, l3, l4 = sch.split(loop=l1, factors=[None, 3, 4], preserve_unit_iters=False, disable_predication=False)
["Split", ["l1", "None", 3, 4], [0, 0], ["l2", "l3", "l4"]]

# ==== refused

# ---- refused: not single infer factor, non positive factor, wrong factor | VECTOR
split(i, [None, 2, None])
# refused NotSingleInferFactorError at loop i: but 2 are

split(i, [None, 0])
# refused NonPositiveFactorError at loop i: factor 1 is 0

split(i, [-1, 128])
# refused NonPositiveFactorError at loop i: factor 0 is -1

split(i, [4, 31])
# refused WrongFactorError at loop i: 124, is smaller than the extent 128

# ---- refused: wrong factor | SYMBOLIC
split(i, [4, 4])
# refused WrongFactorError at loop i: 16, is smaller than the extent n

# ---- refused: has annotation or thread binding | VECTOR
annotate(i, "pragma", 1)
split(i, [4, 32])
# refused HasAnnotationOrThreadBindingError at loop i: `i` has one

bind(i, "threadIdx.x")
split(i, [4, 32])
# refused HasAnnotationOrThreadBindingError at loop i: `i` has one

# ---- refused: loop not start with zero | SHIFTED
split(i, [None, 4])
# refused LoopNotStartWithZeroError at loop i: `i` starts at 4

# ---- the loop that is split is the one marked | MATMUL_2
split(k, [2, 2])
# refused WrongFactorError at loop k: extent 6

# ---- factors are checked before the loop | SHIFTED
split(i, [None, None, 0])
# refused NotSingleInferFactorError at loop i: only one factor can be specified as -1 or none, but 2 are

split(i, [None, 0])
# refused NonPositiveFactorError at loop i: all the constant factors are required to be positive, but factor 1 is 0

split(i, [2, 2])
# refused WrongFactorError at loop i: the product of factors, 4, is smaller than the extent 124 of loop `i`
