"""decompose_reduction: the init of a reduction becomes a block of its own."""

# ==== where the init goes

# ---- MATMUL_2
A = placeholder((8, 5))
B = placeholder((5, 6))
k = reduce_axis((0, 5))
C = compute((8, 6), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- loops that the data parallel axes do not use are left out | MATMUL_2
reorder(j, k, i)
decompose_reduction("C", k)
# becomes
for j in range(6):
    for i_init in range(8):
        with T.block("C_init"):
            vi, vj = T.axis.remap("SS", [i_init, j])
            C[vi, vj] = T.float32(0.0)
    for k, i in T.grid(5, 8):
        with T.block("C_update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ---- SUM
A = placeholder((8, 5))
k = reduce_axis((0, 5))
C = compute((8,), lambda i: sum(A[i, k], k))

# ---- a bound between loops above and below | SUM
# with 8, 5)), C: T.Buffer((8 => 7, 4)), C: T.Buffer((7
# with i, k in T.grid(8, 5 => i_0, i_1, k in T.grid(2, 4, 4
# with vi, vk = T.axis.remap("SR", [i, k]) => vi = T.axis.spatial(7, i_0 * 4 + i_1)\nvk = T.axis.reduce(4, k)\nT.where(i_0 * 4 + i_1 < 7)
decompose_reduction("C", i_1)
# blocks
i_0 2, i_1_init 4: C_init(i_0 * 4 + i_1_init) where i_0 * 4 + i_1_init < 7
i_0 2, i_1 4, k 4: C_update(i_0 * 4 + i_1, +k) where i_0 * 4 + i_1 < 7

# ==== what is copied

# ---- kinds of loops and annotations of blocks are copied
@T.prim_func
def main(A: T.Buffer((8, 5, 4)), C: T.Buffer((8, 4))):
    for i in T.parallel(8):
        for k in range(5):
            for j in T.vectorized(4, annotations={"a": 1}):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.block_attr({"tag": "S"})
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk, vj]
# apply
decompose_reduction("C", k)
# blocks
parallel i 8, vectorized j_init 4: C_init(i, j_init)
parallel i 8, k 5, vectorized j 4: C_update(i, j, +k)

# ---- THREAD_BINDINGS_MADE_ANEW
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]

# ---- thread bindings are made anew | THREAD_BINDINGS_MADE_ANEW
decompose_reduction("C", i)
# blocks
thread_binding i_init 8: C_init(i_init)
thread_binding i 8, k 5: C_update(i, +k)

# ---- COPY_2
A = placeholder((8,))
C = compute((8,), lambda i: A[i])

# ==== handles

# ---- handles | MATMUL_2
C = get_block("C")
i, j, k = get_loops(C)
C_init = decompose_reduction(C, j)
i_2, j_init = get_loops(C_init)
i_3, j_init_2 = get_loops(C_init)
vectorize(j_init_2)
reorder(k, j)
# handles
C: block "C_update"
i: for i in range(8)
j: for j in range(6)
k: for k in range(5)
C_init: block "C_init"
i_2: for i in range(8)
j_init: for j_init in T.vectorized(6)
i_3: for i in range(8)
j_init_2: for j_init in T.vectorized(6)

# ---- trace | MATMUL_2
decompose_reduction("C", j)
# recorded
b5 = sch.decompose_reduction(block=b4, loop=l2)
["DecomposeReduction", ["b4", "l2"], [], ["b5"]]

# ==== refused

# ---- refused: loop position
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for x, z in T.grid(8, 5):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [x, z])
            with T.init():
                D[vi] = T.float32(1)
            D[vi] = D[vi] * A[vi, vk]
# apply
decompose_reduction("C", x)
# refused LoopPositionError at loop x, block C: not an ancestor of block

# ---- refused: loop position (2) | SUM
decompose_reduction("root", i)
# refused LoopPositionError at loop i, block root: not an ancestor

# ---- refused: not reduction block | COPY_2
decompose_reduction("C", i)
# refused NotReductionBlockError at block C: violates condition #1

# ---- refused: not reduction block (2) | SUM
C = get_block("C")
decompose_reduction(C, k)
decompose_reduction(C, k)
# refused NotReductionBlockError at block C_update: violates condition #1

# ---- refused: not reduction block (3)
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.opaque(5, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
# apply
decompose_reduction("C", k)
# refused NotReductionBlockError at block C: condition #3

@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for x in range(8):
        with T.block("again"):
            vx = T.axis.spatial(8, x)
            C[vx] = T.float32(0)
# apply
decompose_reduction("C", k)
# refused NotReductionBlockError at block C: condition #4

# ---- refused: loop height | SUM
reorder(k, i)
decompose_reduction("C", i)
# refused LoopHeightError at loop i, loop k, block C: axis vk of block "C" is bound, is above it

# ---- RUNS_TWICE
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i, r, k in T.grid(8, 2, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]

# ---- refused: loop position (3) | RUNS_TWICE
decompose_reduction("C", i)
# refused LoopPositionError at loop i, block C: loop `r` runs the same steps several times

# ---- a reduction that does not start anew once stays whole | COPY_2
# with i in range(8 => k in range(10 ; 8,)), C: T.Buffer((8 => 12,)), C: T.Buffer((1
# with vi = T.axis.spatial(8, i)\nC[vi] = A[vi] => vk = T.axis.reduce(12, k + 2)\nwith T.init():\n    C[0] = T.float32(0)\nC[0] = C[0] + A[vk]
decompose_reduction("C", k)
# refused LoopPositionError at loop k, block C: reduction axis vk may not start at 0

# with i in range(8 => k in range(10 ; 8,)), C: T.Buffer((8 => 12,)), C: T.Buffer((1
# with vi = T.axis.spatial(8, i)\nC[vi] = A[vi] => vk = T.axis.reduce(12, k + 2)\nwith T.init():\n    C[0] = T.float32(0)\nC[0] = C[0] + A[vk]
rfactor(k, 0)
# refused LoopPropertyError at block C, loop k: block "C" cannot be factored over loop `k`: its steps do not each run once with the initialising step first, because reduction axis vk may not start at 0

# with i in range(8 => k in range(24 ; 8,)), C: T.Buffer((8 => 12,)), C: T.Buffer((1
# with vi = T.axis.spatial(8, i)\nC[vi] = A[vi] => vk = T.axis.reduce(12, k // 2)\nwith T.init():\n    C[0] = T.float32(0)\nC[0] = C[0] + A[vk]
decompose_reduction("C", k)
# refused LoopPositionError at loop k, block C: its bindings may give the same steps several times

# with i in range(8 => k in range(24 ; 8,)), C: T.Buffer((8 => 12,)), C: T.Buffer((1
# with vi = T.axis.spatial(8, i)\nC[vi] = A[vi] => vk = T.axis.reduce(12, k // 2)\nwith T.init():\n    C[0] = T.float32(0)\nC[0] = C[0] + A[vk]
rfactor(k, 0)
# refused LoopPropertyError at block C, loop k: block "C" cannot be factored over loop `k`: its steps do not each run once with the initialising step first, because its bindings may give the same steps several times

# ---- a predicate about what another block writes is not taken elsewhere
@T.prim_func
def main(A: T.Buffer((6, 4)), N: T.Buffer((1,), "int32"), C: T.Buffer((6,))):
    for i, k in T.grid(6, 4):
        with T.block("N"):
            vk = T.axis.opaque(4, k)
            N[0] = vk
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(N[0] < 2)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
# apply
decompose_reduction("C", k)
# refused BareAccessError at block N, block root: N, which block "N" touches, is also read outside of the blocks

# ---- inside the loop that repeats it a reduction can be decomposed | RUNS_TWICE
decompose_reduction("C", k)

# ---- arguments of another type | SUM
decompose_reduction("C", "k")
# refused ArgumentError: `loop` takes a LoopRV, got str: 'k'

# ---- the init stands before the loop | MATMUL_2
decompose_reduction("C", k)
# blocks
i 8, j 6: C_init(i, j)
i 8, j 6, k 5: C_update(i, j, +k)

decompose_reduction("C", j)
# blocks
i 8, j_init 6: C_init(i, j_init)
i 8, j 6, k 5: C_update(i, j, +k)

decompose_reduction("C", i)
# blocks
i_init 8, j_init 6: C_init(i_init, j_init)
i 8, j 6, k 5: C_update(i, j, +k)

# ---- without checks an init is needed | COPY_2
# enable_check=False
decompose_reduction("C", i)
# refused NotReductionBlockError at block C: it violates condition #1
