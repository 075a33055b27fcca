"""pad_einsum: extents are rounded up, on copies of the buffers that are padded with zeros."""

# ==== what is padded

# ---- MATMUL_2
A = placeholder((6, 7))
B = placeholder((7, 5))
k = reduce_axis((0, 7))
C = compute((6, 5), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- all axes | MATMUL_2
pad_einsum("C", [4, 16, 8])
# blocks
alloc A_pad(8, 8), B_pad(8, 16), C_pad(8, 16)
i0 8, i1 8: A_pad(i0, i1)
i0 8, i1 16: B_pad(i0, i1)
i 8, j 16, k 8: C(i, j, +k)
i0 6, i1 5: C_pad(i0, i1)

# ---- extents that are multiples already | MATMUL_2
pad_einsum("C", [1, 1, 1])
# becomes
...

pad_einsum("C", [6, 5, 7])
# becomes
...

pad_einsum("C", [3, 1, 7])
# becomes
...

# ==== kinds of blocks

# ---- ACCUMULATES
@T.prim_func
def main(A: T.Buffer((6, 9)), C: T.Buffer((6,))):
    for i, k in T.grid(6, 9):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vi, vk]

# ---- bytes that are cast | ACCUMULATES
# with 6, 9 => 3, 6
# with ), C: T.Buffer((6,) => , "uint8"), B: T.Buffer((6,), "int8"), C: T.Buffer((3,), "int32"
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = 0\nC[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk])
pad_einsum("C", [1, 4])
# blocks
alloc A_pad(3, 8) uint8, B_pad(8) int8
i0 3, i1 8: A_pad(i0, i1)
i0 8: B_pad(i0)
i 3, k 8: C(i, +k)

# ---- INDICES_CONSTANT_AND_PARTS
@T.prim_func
def main(A: T.Buffer((4, 9)), C: T.Buffer((9, 2))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi, 1] = A[2, vi] * T.float32(3)

# ---- indices that are constant and parts of larger buffers | INDICES_CONSTANT_AND_PARTS
pad_einsum("C", [4])
# blocks
alloc A_pad(4, 8), C_pad(8, 2)
i0 4, i1 8: A_pad(i0, i1)
i 8: C(i)
i0 6, i1 1: C_pad(i0, i1 + 1)

# ==== old values

# ---- a sum that is continued is filled first | ACCUMULATES
pad_einsum("C", [4, 4])
# blocks
alloc A_pad(8, 12), C_pad(8)
i0 8, i1 12: A_pad(i0, i1)
i0 8: C_pad(i0)
i 8, k 12: C(i, +k)
i0 6: C_pad(i0)

# ---- a predicate that would read beyond a buffer is refused | INDICES_CONSTANT_AND_PARTS
# with 4, 9)), C: T.Buffer((9, 2 => 6,)), C: T.Buffer((6,
# with C[vi, 1] = A[2, vi] * T.float32(3) => T.where(A[i] > T.float32(0))\nC[vi] = A[vi]
pad_einsum("C", [4])
# refused NonEinsumError at block C: its predicate reads memory

# ==== unknown extents

# ---- SYMBOLIC_MATMUL
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, n: T.int32, d: T.int32):
    A = T.match_buffer(a, (n, d))
    B = T.match_buffer(b, (d, 5))
    C = T.match_buffer(c, (n, 5))
    for i, j, k in T.grid(n, 5, d):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ---- symbolic extents | SYMBOLIC_MATMUL
pad_einsum("C", [8, 1, 1])
# blocks
alloc A_pad((n + 7) // 8 * 8, d), C_pad((n + 7) // 8 * 8, 5)
i0 (n + 7) // 8 * 8, i1 d: A_pad(i0, i1)
i (n + 7) // 8 * 8, j 5, k d: C(i, j, +k)
i0 n, i1 5: C_pad(i0, i1)

# ---- symbolic extents that are multiples already | SYMBOLIC_MATMUL
# with n, => n * 8,
pad_einsum("C", [4, 5, 1])
# becomes
...

# ==== steps beyond the extent of a reduction

# ---- the least integer pads a maximum | ACCUMULATES
# with 6, 9 => 3, 6
# with ), C: T.Buffer((6,) => , "int8"), B: T.Buffer((3,), "int8"), C: T.Buffer((3,), "int8"
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = T.min_value("int8")\nC[vi] = T.max(C[vi], A[vi, vk])
pad_einsum("C", [1, 4])
# blocks
alloc A_pad(3, 8) int8
i0 3, i1 8: A_pad(i0, i1)
i 3, k 8: C(i, +k)

# ---- a maximum of what is minus infinity
@T.prim_func
def main(A: T.Buffer((3, 6), "float32"), B: T.Buffer((3,), "float32"), C: T.Buffer((3,), "float32")):
    # with T.block("root"):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi], A[vi, vk])
            T.writes(C[vi])
            C[vi] = T.max(C[vi], A[vi, vk])
# apply
pad_einsum("C", [1, 4])
# blocks
alloc A_pad(3, 8)
i0 3, i1 8: A_pad(i0, i1)
i 3, k 8: C(i, +k)

# ==== shared loops

# ---- other blocks in the nest do not run for longer
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,)), D: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = A[vi]
# apply
pad_einsum("C", [4])
# blocks
alloc A_pad(8), C_pad(8)
i0 8: A_pad(i0)
i 8: C(i)
i 8: D(i) where i < 6
i0 6: C_pad(i0)

# ---- FUSED
@T.prim_func
def main(X: T.Buffer((6, 7)), W: T.Buffer((7,)), Y: T.Buffer((6,))):
    A = T.alloc_buffer((6, 7))
    C = T.alloc_buffer((6,))
    for i in range(6):
        for k in range(7):
            with T.block("A"):
                vi, vk = T.axis.remap("SS", [i, k])
                A[vi, vk] = X[vi, vk] + T.float32(1)
        for k in range(7):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk] * W[vk]
        with T.block("Y"):
            vi = T.axis.spatial(6, i)
            Y[vi] = C[vi] * T.float32(2)

# ---- what blocks of a nest exchange is in padded buffers | FUSED
pad_einsum("C", [4, 4])
# blocks
alloc A_pad(8, 8), W_pad(8), C_pad(8)
i0 8, i1 8: A_pad(i0, i1)
i0 8: W_pad(i0)
i 8, k 7: A(i, k) where i < 6
i 8, k 8: C(i, +k)
i 8: Y(i) where i < 6

# ---- a reduction and its init block share a nest | ACCUMULATES
# with 6, 9 => 3, 6
# with ), C: T.Buffer((6,) => , "float32"), B: T.Buffer((3,), "float32"), C: T.Buffer((3,), "float32"
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = T.float32(0)\nC[vi] = C[vi] + A[vi, vk]
decompose_reduction("C", k)
pad_einsum("C_update", [4, 4])

# ---- a block that uses more of a padded buffer is refused | FUSED
# with alloc_buffer((6,) => alloc_buffer((9,)
pad_einsum("C", [4, 1])
# refused NotOnlyChildError at block C, block Y: with block "Y", which also uses C, but the axes index only a part of that buffer

# ==== handles and trace

# ---- handles | MATMUL_2
C = get_block("C")
i, j, k = get_loops(C)
pad_einsum(C, [4, 4, 4])
A_pad, B_pad = get_producers(C)
(C_pad,) = get_consumers(C)
# handles
C: block "C"
i: for i in range(8)
j: for j in range(8)
k: for k in range(8)
A_pad: block "A_pad"
B_pad: block "B_pad"
C_pad: block "C_pad"

# ---- stages are scheduled like others | MATMUL_2
pad_einsum("C", [4, 8, 8])
compute_inline("A_pad")
compute_at("B_pad", j)
vectorize(i1)

# ---- trace | MATMUL_2
pad_einsum("C", [4, 1, 8])
# recorded
sch.pad_einsum(block=b0, padding=[4, 1, 8])
["PadEinsum", ["b0"], [[4, 1, 8]], []]

# ==== refused

# ---- refused: root block | MATMUL_2
pad_einsum("root", [])
# refused RootBlockError at block root: root block

# ---- refused: not stage pipeline
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = T.float32(0)
# apply
pad_einsum("C", [4])
# refused NotStagePipelineError at block root, block A: block "A" overwrites A, which block "C" reads before

# ---- refused: invalid padding | MATMUL_2
pad_einsum("C", [4, 4])
# refused InvalidPaddingError at block C: the padding is [4, 4], but block "C" has 3 axes

pad_einsum("C", [4, 0, 4])
# refused InvalidPaddingError at block C: [4, 0, 4]

pad_einsum("C", [4, -4, 4])
# refused InvalidPaddingError at block C: one positive number

# ---- what is no einsum | ACCUMULATES
# with C: => B: T.Buffer((9,)), C:
# with vi, vk = T.axis.remap("SR", [i, k]) => vi = T.axis.spatial(6, i)\nvk = T.axis.reduce((1, 9), k)\nwith T.init():\n    C[vi] = T.float32(0)
pad_einsum("C", [4, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: axis vk does not start at 0

# with C: => B: T.Buffer((9,)), C:
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = T.float32(0)\nif vk < 5:\n    C[vi] = C[vi] + A[vi, vk]
pad_einsum("C", [4, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: its body is not a single store

# ---- what is no einsum (2)
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            T.reads(A[vi])
            T.writes(C[vi])
            V = T.match_buffer(A[vi], (), offset_factor=1)
            C[vi] = V[()]
# apply
pad_einsum("C", [4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: it has a match_buffer

# ---- what is no einsum (3) | ACCUMULATES
# with C: => B: T.Buffer((9,)), C:
# with C[vi] = C[vi] + A[vi, vk] => T.reads(A[vi, 0:9])\nT.writes(C[vi])\nwith T.init():\n    C[vi] = T.float32(0)\nC[vi] = C[vi] + A[vi, vk]
pad_einsum("C", [4, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: it declares to touch more than one element of A

# with C: => B: T.Buffer((9,)), C:
# with C[vi] = C[vi] + A[vi, vk] => T.reads(A[vi, vk])\nT.writes(C[vi])\nwith T.init():\n    C[vi] = T.float32(0)\nC[vi] = C[vi] + A[vi, vk] * A[vk, vi]
pad_einsum("C", [4, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: it indexes A in several ways

# with C: => B: T.Buffer((9,)), C:
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = T.float32(0)\nC[vi] = C[vi] + A[vi, 8 - vk]
pad_einsum("C", [4, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: the index `8 - vk` of A is not an axis

# with C: => B: T.Buffer((9,)), C:
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = T.float32(0)\nC[vi] = C[vi] + A[vi, vi]
pad_einsum("C", [4, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: an axis occurs twice in A

# with C: => B: T.Buffer((9,)), C:
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = T.float32(0)\nC[vi] = A[vi, vk] - C[vi]
pad_einsum("C", [1, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: `A[vi, vk] - C[vi]` is not a sum, product

# with C: => B: T.Buffer((9,)), C:
# with C[vi] = C[vi] + A[vi, vk] => with T.init():\n    C[vi] = T.float32(0)\nC[vi] = C[vi] + A[vi, vk] + T.float32(1)
pad_einsum("C", [1, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: `C[vi] + A[vi, vk] + T.float32(1.0)` is not a sum, product, maximum or minimum of the stored element and a term for which added steps of axis vk are neutral

# with C: => B: T.Buffer((9,)), C:
# with vi, vk = T.axis.remap("SR", [i, k]) => vi = T.axis.spatial(6, i)\nvk = T.axis.reduce(9, 8 - k)\nwith T.init():\n    C[vi] = T.float32(0)
pad_einsum("C", [1, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: axis vk is bound to `8 - k`, not to a loop over its domain

# with 9 => 8 ; 8)) => 9)), B: T.Buffer((9,))
# with vi, vk = T.axis.remap("SR", [i, k]) => vi = T.axis.spatial(6, i)\nvk = T.axis.reduce(9, k)\nwith T.init():\n    C[vi] = T.float32(0)
pad_einsum("C", [1, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: axis vk is bound to `k`, not to a loop over its domain

# with 6 => 9 ; C: T.Buffer((9 => B: T.Buffer((9,)), C: T.Buffer((6
# with vi, vk = T.axis.remap("SR", [i, k]) => vi, vk = T.axis.remap("SR", [i, i])\nwith T.init():\n    C[vi] = T.float32(0)
pad_einsum("C", [4, 4])
# refused NonEinsumError at block C: block "C" is not an Einstein summation that can be padded: loop i drives several axes

# ---- without checks the block may continue a sum | ACCUMULATES
# enable_check=False
pad_einsum("C", [4, 4])
# blocks, not interpreted
alloc A_pad(8, 12), C_pad(8)
i0 8, i1 12: A_pad(i0, i1)
i 8, k 12: C(i, +k)
i0 6: C_pad(i0)

# ---- what is no list of numbers | MATMUL_2
pad_einsum("C", [4, 4, 4.5])
# refused ArgumentError: `padding` takes Sequence, got list: [4, 4, 4.5]

# ---- a loop that also drives another axis is refused | ACCUMULATES
# with 9 => 1 ; i, k in T.grid(6, 1 => i_0, i_1 in T.grid(1, 6
# with vi, vk = T.axis.remap("SR", [i, k]) => vk = T.axis.reduce(1, i_0)\nvi = T.axis.spatial(6, i_0 * 6 + i_1)\nwith T.init():\n    C[vi] = T.float32(0)
pad_einsum("C", [5, 1])
# refused NonEinsumError at block C: loop i_0 drives several axes

# ---- ARGMAX
@T.prim_func
def main(A: T.Buffer((6, 9)), P: T.Buffer((6,), "int32"), Q: T.Buffer((6,))):
    for i, k in T.grid(6, 9):
        with T.block("at"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                Q[vi] = T.min_value("float32")
            p: T.int32 = T.Select(Q[vi] >= A[vi, vk], P[vi], vk)
            q: T.float32 = T.max(Q[vi], A[vi, vk])
            P[vi] = p
            Q[vi] = q

# ---- the values of a tuple are its identity beyond the extent | ARGMAX
pad_einsum("at", [1, 4])
compute_inline("A_pad")
# blocks
i 6, k 12: at(i, +k)

# ---- the spatial axes of a tuple are padded | ARGMAX
pad_einsum("at", [4, 1])
x_root = get_block("root")
get_child_blocks(x_root)
# blocks
alloc A_pad(8, 9), P_pad(8) int32, Q_pad(8)
i0 8, i1 9: A_pad(i0, i1)
i 8, k 9: at(i, +k)
i0 6: P_pad(i0)
i0 6: Q_pad(i0)

# ---- a tuple without a known combination is refused | ARGMAX
# with T.max(Q[vi], A[vi, vk]) => Q[vi] - A[vi, vk]
pad_einsum("at", [1, 4])
# refused NoMatchedReducerError at block at: no known reducer has the identity
