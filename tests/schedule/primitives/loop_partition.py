"""Cutting the range of a loop into pieces."""

# ---- BEFORE
A = placeholder((13, 3))
B = compute((13, 3), lambda i, j: A[i, j] * 2)

# ---- two pieces | BEFORE
loop_partition(i, [4])
# blocks
B_i_common()
    B_i0_partition()
        i0 4, j 3: B_i0(i0, j)
    B_i1_partition()
        i1 9 from 4, j 3: B_i1(i1, j)

# ---- pieces are ordinary loops | BEFORE
loop_partition(i, [2, None, 3])
parallel(i0)
_, j = get_loops("B_i0")
split(j, [None, 2])

# ---- inner loop and sampled lengths | BEFORE
v = sample_categorical([1, 2], [0.5, 0.5], decision=1)
loop_partition(j, [v, None])

# ---- REDUCTION
A = placeholder((7, 11))
k = reduce_axis((0, 11))
B = compute((7,), lambda i: sum(A[i, k], k))

# ---- spatial loop of a reduction | REDUCTION
loop_partition(i, [3])

# ---- reduction loop after its init was split off | REDUCTION
decompose_reduction(B, i)
loop_partition(k, [5])

# ---- predicates and nested blocks are copied | BEFORE
split(i, [None, 4])
loop_partition(i_0, [1, 2, None])

# ---- STAGES_2
A = placeholder((11,))
B = compute((11,), lambda i: A[i] + 1)
C = compute((11,), lambda i: B[10 - i])

# ---- producer and consumer in one loop | STAGES_2
# with 10 - vi => vi
(i,) = get_loops("B")
(i_2,) = get_loops("C")
merge(i, i_2)
loop_partition(i_m, [3])

# ---- pieces keep their place among dependent blocks | STAGES_2
(i,) = get_loops("C")
loop_partition(i, [4])
cache_write("B", 0, "global")

# ---- wrong factors | BEFORE
loop_partition(i, [13])
# refused WrongFactorError at loop i: sum of factors, 13

loop_partition(i, [None, 13])
# refused WrongFactorError at loop i: not smaller than the extent 13

loop_partition(i, [None, None])
# refused NotSingleInferFactorError at loop i: 2 are

loop_partition(i, [3, 0])
# refused NonPositiveFactorError at loop i: factor 1 is 0

# ---- pieces of a reduction below and above its results | REDUCTION
reorder(i, k)
loop_partition(k, [1])

reorder(k, i)
loop_partition(k, [1])

reorder(i, k)
loop_partition(k, [1, 4, None])

reorder(k, i)
loop_partition(k, [1, 4, None])

reorder(i, k)
loop_partition(k, [10])

reorder(k, i)
loop_partition(k, [10])

# ---- pieces of a part of a reduction | REDUCTION
split(k, [None, 4])
loop_partition(k_0, [1, None])

split(k, [None, 4])
loop_partition(k_1, [1, None])

# ---- annotated loop is refused | BEFORE
annotate(i, "note", 1)
loop_partition(i, [4])
# refused HasAnnotationOrThreadBindingError at loop i: the primitive needs a loop without annotation or thread binding, but loop `i` has one

# ---- symbolic extent is refused | SYMBOLIC
# with ] * T.float32(2) => ]
loop_partition(i, [4])
# refused SymbolicShapeError at loop i: dynamic shape

# ---- views of the pieces bind variables of their own
@T.prim_func
def main(a: T.handle, C: T.Buffer((8,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (8, n))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:n])
            T.writes(C[vi])
            V = T.match_buffer(A[vi, 0:n], (1, n), strides=("s", 1), offset_factor=1)
            C[vi] = V[0, n - 1]
# apply
loop_partition(i, [2])
# blocks
B_i_common()
    B_i0_partition()
        i0 2: B_i0(i0)
    B_i1_partition()
        i1 6 from 2: B_i1(i1)

# ---- CHAIN
A = placeholder((12,))
B = compute((12,), lambda i: A[i] + 1)
D = compute((12,), lambda i: B[i] * 2)
C = compute((12,), lambda i: D[i] + 1)

# ---- what the pieces write is known together | CHAIN
(i,) = get_loops("B")
loop_partition(i, [4, 3, None])
(i,) = get_loops("C")
compute_at("D", i)

(i,) = get_loops("B")
loop_partition(i, [4, 3, None])
compute_inline("D")

(i,) = get_loops("B")
loop_partition(i, [4, 3, None])
cache_read("D", 0, "global")

(i,) = get_loops("D")
loop_partition(i, [4, 3, None])
cache_read("C", 0, "global")

# ---- a consumer of more than the pieces write is not moved
@T.prim_func
def main(A: T.Buffer((12,)), C: T.Buffer((12,))):
    B = T.alloc_buffer((12,))
    D = T.alloc_buffer((12,))
    for i in range(11):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(12):
        with T.block("D"):
            vi = T.axis.spatial(12, i)
            D[vi] = B[vi] * T.float32(2)
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = D[vi] + T.float32(1)
# apply
(i,) = get_loops("B")
loop_partition(i, [4, 3, None])
(i,) = get_loops("C")
compute_at("D", i)
# refused NotStagePipelineError at block root, block D: reads more than its producers write

# ---- COPY_2
A = placeholder((16, 128))
B = compute((16, 128), lambda i, j: A[i, j] * 2)

# ---- what a pointer touches stays as declared | COPY_2
# with 128 => 16 ; A: T.Buffer((16, 16)), B => B
# with B[vi, vj] = A[vi, vj] * T.float32(2) => T.reads()\nT.writes(B[0:16, 0:16])\nT.evaluate(T.call_extern("int32", "fill", B.data, vi * 16 + vj))
loop_partition(j, [12])
# blocks, not interpreted
i 16: B_j_common()
    B_j0_partition()
        j0 12: B_j0(i, j0)
    B_j1_partition()
        j1 4 from 12: B_j1(i, j1)
