"""Giving a block another index space."""

# ---- COPY_2
A = placeholder((12, 5))
B = compute((12, 5), lambda i, j: A[i, j] * 2)

# ---- tiles | COPY_2
transform_block_layout("B", lambda i, j: (j, i // 4, i % 4))
# becomes
for ax0, ax1, ax2 in T.grid(5, 3, 4):
    with T.block("B"):
        v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
        B[v1 * 4 + v2, v0] = A[v1 * 4 + v2, v0] * T.float32(2.0)

# ---- MATMUL_2
A = placeholder((4, 6))
B = placeholder((6, 7))
k = reduce_axis((0, 6))
C = compute((4, 7), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- bijective maps keep the result | MATMUL_2
transform_block_layout("C", lambda i, j, k: (k, j, i))

transform_block_layout("C", lambda i, j, k: (3 - i, j, 5 - k))

transform_block_layout("C", lambda i, j, k: (i, j, k // 2, k % 2))

transform_block_layout("C", lambda axes_0, axes_1, axes_2: (axes_2, axes_1, axes_0))

transform_block_layout("C", lambda i, j, k: (i, 0, j, k))

# ---- axes of one value mix with any | COPY_2
# with 12 => 1 ; SS => RS
transform_block_layout("B", lambda i, j: (i * 5 + j,))

# ---- refused: opaque new iter type, index map not applicable to block iter, not bijective affine index map | MATMUL_2
transform_block_layout("C", lambda i, j, k: (i, j + k))
# refused OpaqueNewIterTypeError at block C: the new axis `j + k` of block "C" would mix axes of different kinds

transform_block_layout("C", lambda i, j: (j, i))
# refused IndexMapNotApplicableToBlockIterError at block C: the index map takes 2 indices, but block "C" has 3 axes

transform_block_layout("C", lambda i, j, k: (i // T.int64(2), j, k))
# refused NotBijectiveAffineIndexMapError at block C: the index map lambda i, j, k: (i // 2, j, k,) is not a bijective affine map of the axes of block "C": the index map lambda i, j, k: (i // 2, j, k,) may map two points to one place on this shape: the pieces of an iterator overlap or leave a gap

transform_block_layout("C", lambda i, j, k: (i // T.int64(3), i % T.int64(3), j, k))
# refused NotBijectiveAffineIndexMapError at block C: the index map lambda i, j, k: (i // 3, i % 3, j, k,) is not a bijective affine map of the axes of block "C": no instance is mapped to the places where 4 <= axis0 * 3 + axis1

transform_block_layout("C", lambda i, j, k: (i + T.int64(1), j, k))
# refused NotBijectiveAffineIndexMapError at block C: the index map lambda i, j, k: (i + 1, j, k,) is not a bijective affine map of the axes of block "C": its results start at 1, not at 0

# ---- bound otherwise is refused | COPY_2
split(i, [None, 4])
transform_block_layout("B", lambda i, j: (j, i))
# refused NotTrivialBindingError at block B: not variables of outer loops

# ---- shared loops are refused | SHARED_LOOPS
transform_block_layout("B", lambda i: (i // T.int64(2), i % T.int64(2)))
# refused NotSingleChildBlockError at loop i, block B: block "B" is not the only block below its outermost loop loop `i`

# ---- loop that starts elsewhere is refused
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
    for i in range(1, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
# apply
transform_block_layout("B", lambda i: (T.int64(3) - i,))
# refused LoopNotStartWithZeroError at loop i: the primitive only supports loops that start with 0, but loop `i` starts at 1

# ---- a loop whose range depends on another is refused
@T.prim_func
def main(A: T.Buffer((6, 6)), B: T.Buffer((6, 6))):
    for i in range(6):
        for j in range(i):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
# apply
transform_block_layout("B", lambda i, j: (j, i))
# refused DependentLoopError at loop j: depends on a loop around it
