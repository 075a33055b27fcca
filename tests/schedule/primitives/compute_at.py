"""compute_at: a producer moves below a loop of its consumers."""

# ==== instances computed

# ---- SHIFTED
A = placeholder((8, 9))
B = compute((8, 9), lambda i, j: A[i, j] * 2)
C = compute((8, 8), lambda x, y: B[x, y] + B[x, y + 1])

# ---- what an iteration of the consumer reads is computed there | SHIFTED
compute_at("B", x)
# becomes
B = T.alloc_buffer((8, 9))
for x in range(8):
    for ax0 in range(9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [x, ax0])
            B[vi, vj] = A[vi, vj] * T.float32(2.0)
    for y in range(8):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx, vy] + B[vx, vy + 1]

# ---- a producer of no elements moves with its loops | STAGES
# with 6 => 0 ; 0)), => 1)),
compute_at("B", x)
# blocks
alloc B(8, 0)
x 8, ax0 0: B(x, ax0)
x 8, y 0: C(x, y)

# ---- loops of extent 1 are kept if asked for | SHIFTED
compute_at("B", x, preserve_unit_loops=True)
# blocks
alloc B(8, 9)
x 8, ax0 1, ax1 9: B(x + ax0, ax1)
x 8, y 8: C(x, y)

# ---- reduction axes run over all their values | MATMUL_RELU
compute_at("M", x)
# blocks
alloc M(8, 6)
x 8, ax0 6, ax1 5: M(x, ax0, +ax1)
x 8, y 6: R(x, y)

# ---- a tile of the consumer | COPY
split(x, [4, None])
compute_at("B", x_0)
# blocks
alloc B(16)
x_0 4, ax0 4: B(x_0 * 4 + ax0)
x_0 4, x_1 4: C(x_0 * 4 + x_1)

# ---- tiles that do not divide get a predicate | COPY
split(x, [None, 5])
compute_at("B", x_0)
# blocks
alloc B(16)
x_0 4, ax0 5: B(x_0 * 5 + ax0) where x_0 * 5 + ax0 < 16
x_0 4, x_1 5: C(x_0 * 5 + x_1) where x_0 * 5 + x_1 < 16

# ---- reads beyond both ends get a predicate
A = placeholder((8,))
B = compute((8,), lambda i: A[i] + 1)
C = compute((10,), lambda x: T.if_then_else(all(1 <= x, x < 9), B[x - 1], 0))
# apply
compute_at("B", x)
# blocks
alloc B(8)
x 10: B(x - 1) where 1 <= x and x < 9
x 10: C(x)

# ---- a producer that stores in another layout
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi // 4, vi % 4] = A[vi]
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + T.float32(1)
# apply
compute_at("B", x)
# blocks
alloc B(4, 4)
x 4, ax0 4: B(x * 4 + ax0)
x 4, y 4: C(x, y)

# ---- a producer of two elements an instance
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((16,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi * 2:vi * 2 + 2])
            T.writes(B[vi * 2:vi * 2 + 2])
            for e in range(2):
                B[vi * 2 + e] = A[vi * 2 + e]
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi * 4 + vj] + T.float32(1)
# apply
compute_at("B", x)
# blocks
alloc B(16)
x 4, ax0 2: B(x * 2 + ax0)
x 4, y 4: C(x, y)

# ---- two consumers get what either reads
@T.prim_func
def main(A: T.Buffer((9,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((9,))
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, x)
            D[vi] = B[vi + 1]
# apply
compute_at("B", x)
# blocks
alloc B(9)
x 8, ax0 2: B(x + ax0)
...

# ---- loops that hold another block stay
@T.prim_func
def main(A: T.Buffer((4, 4)), D: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    for i in range(4):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj]
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj]
# apply
compute_at("B", y)
# blocks
alloc B(4, 4)
i 4, j 4: D(i, j)
x 4, y 4: B(x, y)
x 4, y 4: C(x, y)

# ==== place in the loop

# ---- SIBLINGS
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,)), Y: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, x)
            X[vi] = A[vi]
        with T.block("Y"):
            vi = T.axis.spatial(8, x)
            Y[vi] = A[vi] * T.float32(3)
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] * T.float32(2)

# ---- place among the statements of the loop | SIBLINGS
compute_at("B", x)
# blocks
alloc B(8)
x 8: X(x)
x 8: Y(x)
x 8: B(x)
x 8: C(x)

compute_at("B", x, index=1)

compute_at("B", x, index=2)

# ==== handles

# ---- handles | SHIFTED
B = get_block("B")
C = get_block("C")
x, y = get_loops(C)
i, j = get_loops(B)
compute_at(B, x)
x_2, ax0 = get_loops(B)
x_3, ax0_2 = get_loops(B)
x_4, ax0_3 = get_loops(B)
vectorize(ax0_3)
# handles
B: block "B"
C: block "C"
x: for x in range(8)
y: for y in range(8)
i: gone, compute-at replaced it
j: gone, compute-at replaced it
x_2: for x in range(8)
ax0: for ax0 in T.vectorized(9)
x_3: for x in range(8)
ax0_2: for ax0 in T.vectorized(9)
x_4: for x in range(8)
ax0_3: for ax0 in T.vectorized(9)

# ---- trace | SHIFTED
compute_at("B", x, preserve_unit_loops=True, index=-2)
# recorded
sch.compute_at(block=b3, loop=l1, preserve_unit_loops=True, index=-2)
["ComputeAt", ["b3", "l1"], [1, -2], []]

compute_at("B", x)
# recorded
sch.compute_at(block=b3, loop=l1, preserve_unit_loops=False, index=-1)
["ComputeAt", ["b3", "l1"], [0, -1], []]

# ==== refused

# ---- refused: root block | COPY
compute_at("root", x)
# refused RootBlockError at block root: root block

# ---- refused: not stage pipeline | OVERWRITES
compute_at("B", x)
# refused NotStagePipelineError at block root, block A: block "A" overwrites A, which block "B" reads before

# ---- refused: not stage pipeline, not complete or reduction block, not in same scope | COPY
# with A[vi] + T.float32(1) => B[vi] + A[vi]
# with vx = T.axis.spatial(16, x)\nC[vx] = B[vx] * T.float32(2) => vi = T.axis.spatial(16, x)\nC[vi] = B[vi] * T.float32(2)
compute_at("B", x)
# refused NotCompleteOrReductionBlockError at block B: violates condition #3) nor a reduction block (it violates condition #1)

# ---- refused: not in same scope, output block | COPY
compute_at("B", i)
# refused NotInSameScopeError at block B, loop i: is already below loop

compute_at("C", i)
# refused OutputBlockError at block C: writes C

# ---- refused: only leaf
@T.prim_func
def main(A: T.Buffer((8,))):
    X = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for x in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, x)
            X[vi] = A[vi]
        T.evaluate(T.call_extern("int32", "tick"))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = X[vi]
# apply
(x,) = get_loops("X")
compute_inline("X")
compute_at("B", x)
# refused OnlyLeafError at block B, block root: only leaf

# ---- refused: invalid insertion index | SIBLINGS
compute_at("B", x, index=3)
# refused InvalidInsertionIndexError at block B, loop x: 3 is not in the valid range [0, 2]

compute_at("B", x, index=-3)
# refused InvalidInsertionIndexError at block B, loop x: -3 is not in the valid range [0, 2]

# ---- refused: not all required blocks are visited, dependency order, domain not solvable
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,))):
    P = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for x in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, x)
            X[vi] = A[vi]
    for p in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, p)
            P[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
# apply
compute_at("B", x)
# refused DependencyOrderError at block B, loop x, block P: wrong side

A = placeholder((8,))
B = compute((8,), lambda i: A[i])
C = compute((8,), lambda x: B[x])
D = compute((8,), lambda y: B[y])
E = compute((8,), lambda z: B[z])
# apply
compute_at("B", x)
# refused NotAllRequiredBlocksAreVisitedError at block B, loop x: requires all the consumer(s) of block "B" to be under loop `x`, but these are not: D, E

# ---- SUMS
A = placeholder((4, 8))
k = reduce_axis((0, 8))
B = compute((4,), lambda i: sum(A[i, k], k))
C = compute((4, 8), lambda x, y: A[x, y] - B[x])

# ---- loops that run at the same time may hold a whole reduction | SUMS
parallel(y)
compute_at("B", x)
compute_at("B", y)
# blocks
alloc B(4)
x 4, parallel y 8, ax0 8: B(x, +ax0)
x 4, parallel y 8: C(x, y)

vectorize(y)
compute_at("B", x)
compute_at("B", y)
# blocks
alloc B(4)
x 4, vectorized y 8, ax0 8: B(x, +ax0)
x 4, vectorized y 8: C(x, y)

# ---- arguments of another type | COPY
compute_at(3, None)
# refused ArgumentError: `block` takes a BlockRV or the name of a block, got int: 3

compute_at("B", "x")
# refused ArgumentError: `loop` takes a LoopRV, got str: 'x'

# ---- instances that overlap may not be cut off
@T.prim_func
def main(A: T.Buffer((9,)), C: T.Buffer((9,))):
    B = T.alloc_buffer((9,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 2 : vi * 2 + 3])
            T.writes(B[vi * 2 : vi * 2 + 3])
            T.block_attr({"schedule.any_order": True})
            for k in range(3):
                B[vi * 2 + k] = A[vi * 2 + k]
    for i in range(9):
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = B[vi]
# apply
(i,) = get_loops("C")
compute_at("B", i)
# refused DomainNotSolvableError at block B, loop i: may lie outside of the domain 0 to 3

# ---- ROW_SUMS_2
@T.prim_func
def main(A: T.Buffer((4, 6)), D: T.Buffer((4,))):
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 12):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(6, k // 2)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[vi]

# ---- a reduction that repeats its steps stays | ROW_SUMS_2
(i,) = get_loops("D")
compute_at("C", i)
# refused RepeatedReductionError at block C, loop i: here, the steps of its reduction do not each run once with the initialising step first, because its bindings may give the same steps several times

# with k in T.grid(4, 12 => k, r in T.grid(4, 6, 2 ; k // 2 => k
(i,) = get_loops("D")
compute_at("C", i)
# refused RepeatedReductionError at block C, loop i: here, the steps of its reduction do not each run once with the initialising step first, because loop `r` runs the same steps several times

# ---- PART_OF_A_SUM
@T.prim_func
def main(A: T.Buffer((4, 6)), D: T.Buffer((4,))):
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k < 5)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[vi]

# ---- steps that a predicate leaves out do not come back | PART_OF_A_SUM
(i,) = get_loops("D")
compute_at("C", i)
# refused LeftOutInstancesError at block C, loop i: may skip values of its axis vk

# ---- a sum that takes all its steps may have a predicate | PART_OF_A_SUM
# with T.where(k < 5)\nwith T.init(): => with T.init():
split(k, [None, 4])
(i,) = get_loops("D")
compute_at("C", i)

# ---- a producer comes before the condition around its consumer
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        if i < 5:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
# apply
(i,) = get_loops("C")
compute_at("B", i)
# blocks
...

# ---- a reader that declares nothing may need the whole buffer
# The pieces of a partitioned loop stand in a block that says nothing of what they touch.
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4, 3)), D: T.Buffer((4, 3))):
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(4):
        for j in range(3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
        for j in range(3):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj + 3]
# apply
_, j = get_loops("D")
loop_partition(j, [1, None])
i, _ = get_loops("C")
compute_at("B", i)
get_loops("B")

# ---- a loop that new ones would replace keeps its kind | NARROW_STAGES
# with 4 => 8
_, j = get_loops("B")
vectorize(j)
i, _ = get_loops("C")
compute_at("B", i)
# refused LoopKindLostError at block B, loop j: is not a plain serial loop

# ---- the root mark leaves the program as it is | COPY
place = sample_compute_location("B", decision=-1)
compute_at("B", place)
# becomes
...
