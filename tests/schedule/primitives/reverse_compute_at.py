"""reverse_compute_at: a consumer moves below a loop of its producers."""

# ==== instances computed

# ---- a consumer uses a row as soon as it is there | STAGES
reverse_compute_at("C", i)
# becomes
B = T.alloc_buffer((8, 6))
for i in range(8):
    for j in range(6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2.0)
    for ax0 in range(6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [i, ax0])
            C[vx, vy] = B[vx, vy] + T.float32(1.0)

# ---- a consumer of a reduction follows its last step | MATMUL_RELU
reverse_compute_at("R", j)
# blocks
...
i 8, j 6: R(i, j)

# ---- a transposed read | STAGES
# with 8, 6))) => 6, 8))) ; y in T.grid(8, 6 => y in T.grid(6, 8
# with vx, vy] + T.float32(1) => vy, vx]
reverse_compute_at("C", i)
# blocks
...
i 8, ax0 6: C(ax0, i)

# ---- tiles that do not divide get a predicate | COPY
split(i, [None, 5])
reverse_compute_at("C", i_0)
# blocks
alloc B(16)
i_0 4, i_1 5: B(i_0 * 5 + i_1) where i_0 * 5 + i_1 < 16
i_0 4, ax0 5: C(i_0 * 5 + ax0) where i_0 * 5 + ax0 < 16

# ---- PADDED
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((10,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, x)
            T.reads(B[vi - 1])
            T.writes(C[vi])
            C[vi] = T.if_then_else(1 <= vi and vi < 9, B[vi - 1], T.float32(0))

# ---- a reduction runs over what its producer gives | ROW_SUMS
reverse_compute_at("C", i)
# blocks
...
i 8, ax0 6: C(i, +ax0)

# ---- steps of a reduction may follow a serial loop | ROW_SUMS
reverse_compute_at("C", j)
# blocks
...
i 8, j 6: C(i, +j)

# ==== place in the loop

# ---- SIBLINGS
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,)), Y: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = A[vi]
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = A[vi] * T.float32(3)
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] * T.float32(2)

# ---- place among the statements of the loop | SIBLINGS
reverse_compute_at("C", i)
# blocks
...
i 8: C(i)

reverse_compute_at("C", i, index=2)

reverse_compute_at("C", i, index=3)

# ==== special targets

# ---- marks leave or inline the block | COPY
reverse_compute_at("C", root)
reverse_compute_at("C", inline)
# blocks
i 16: B(i)

reverse_compute_inline("C")
# blocks
i 16: B(i)

# ==== handles

# ---- handles | STAGES
C = get_block("C")
B = get_block("B")
i, j = get_loops(B)
x, y = get_loops(C)
reverse_compute_at(C, i)
i_2, ax0 = get_loops(C)
# handles
C: block "C"
B: block "B"
i: for i in range(8)
j: for j in range(6)
x: gone, reverse-compute-at replaced it
y: gone, reverse-compute-at replaced it
i_2: for i in range(8)
ax0: for ax0 in range(6)

# ---- trace | STAGES
reverse_compute_at("C", i, preserve_unit_loops=True, index=1)
# recorded
sch.reverse_compute_at(block=b3, loop=l1, preserve_unit_loops=True, index=1)
["ReverseComputeAt", ["b3", "l1"], [1, 1], []]

reverse_compute_at("C", i)
# recorded
sch.reverse_compute_at(block=b3, loop=l1, preserve_unit_loops=False, index=-1)
["ReverseComputeAt", ["b3", "l1"], [0, -1], []]

# ==== refused

# ---- refused: root block | COPY
reverse_compute_at("root", i)
# refused RootBlockError at block root: root block

# ---- refused: not stage pipeline, not complete or reduction block, not in same scope
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, x)
            C[vi] = C[vi] + B[vi]
# apply
reverse_compute_at("C", i)
# refused NotCompleteOrReductionBlockError at block C: violates condition #3) nor a reduction block (it violates condition #1)

@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, x)
            C[vi] = B[vi] * T.float32(2)
# apply
reverse_compute_at("C", i)
# refused NotStagePipelineError at block root, block C: block "C" reads more than its producers write

# ---- refused: not in same scope | COPY
reverse_compute_at("C", x)
# refused NotInSameScopeError at block C, loop x: is already below loop

# ---- refused: only leaf
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    X = T.alloc_buffer((8,))
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
reverse_compute_at("B", x)
# refused OnlyLeafError at block B, block root: only leaf

# ---- refused: invalid insertion index | SIBLINGS
reverse_compute_at("C", i, index=0)
# refused InvalidInsertionIndexError at block C, loop i: 0 is not in the valid range [1, 3]

reverse_compute_at("C", i, index=4)
# refused InvalidInsertionIndexError at block C, loop i: 4 is not in the valid range [1, 3]

# ---- refused: not all required blocks are visited, dependency order
A = placeholder((8,))
C = compute((8,), lambda c: A[c])
D = compute((8,), lambda d: C[d])
X = compute((8,), lambda x: A[x])
# apply
reverse_compute_at("C", x)
# refused DependencyOrderError at block C, loop x, block D: wrong side

@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    E = T.alloc_buffer((8,))
    for d in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, d)
            D[vi] = A[vi]
    for e in range(8):
        with T.block("E"):
            vi = T.axis.spatial(8, e)
            E[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] + D[vi] + E[vi]
# apply
reverse_compute_at("C", i)
# refused NotAllRequiredBlocksAreVisitedError at block C, loop i: requires all the producer(s) of block "C" to be under loop `i`, but these are not:

# ---- NEXT_ELEMENT
A = placeholder((9,))
B = compute((9,), lambda i: A[i])
C = compute((8,), lambda x: B[x] + B[x + 1])

# ---- refused: not region cover | NEXT_ELEMENT
reverse_compute_at("C", i)
# refused NotRegionCoverError at block C, loop i: would read elements that its producers have not written yet

# ---- refused: not region cover (2) | PADDED
reverse_compute_at("C", i)
# refused NotRegionCoverError at block C, loop i, block B: read elements that block "B" does not store

# ---- refused: wrong block iter type | ROW_SUMS
parallel(j)
reverse_compute_at("C", j)
# refused WrongBlockIterTypeError at block C, loop j: drive its axis vy

vectorize(j)
reverse_compute_at("C", j)
# refused WrongBlockIterTypeError at block C, loop j: drive its axis vy

# ---- refused: domain not solvable
A = placeholder((18,))
B = compute((18,), lambda i: A[i])
C = compute((8,), lambda x: B[x * 2 + 1] + B[x * 2 + 2])
# apply
reverse_compute_at("C", i)
# refused DomainNotSolvableError at block C, loop i: the index `vx * 2 + 1`

# ---- after a refusal the schedule can be used | NEXT_ELEMENT
reverse_compute_at("C", i)
# refused NotRegionCoverError at block C, loop i: block "C" cannot move under loop `i`, because there it would read elements that its producers have not written yet

# ---- without checks the scope need not be a stage pipeline | OVERWRITES
# enable_check=False
reverse_compute_at("C", i)
get_loops("C")
# blocks
...
i 8: C(i)
z 8: A(z)

# ---- arguments of another type | COPY
get_loops("B")
# becomes
...

reverse_compute_at("C", i, index="last")
# refused ArgumentError: `index` takes int, got str: 'last'

# ---- PARTIAL_SUMS
A = placeholder((4, 3, 5))
k = reduce_axis((0, 5))
P = compute((4, 3), lambda i, j: sum(A[i, j, k], k))
j = reduce_axis((0, 3))
C = compute((4,), lambda i: sum(P[i, j], j))

# ---- steps of a reduction are not repeated | PARTIAL_SUMS
reverse_compute_at("C", k)
# refused RepeatedReductionError at block C, loop k: there, the steps of its reduction do not each run once with the initialising step first, because loop `k` runs the same steps several times

_, j, _ = get_loops("P")
reverse_compute_at("C", j)

# ---- a block without axes that uses a loop stays
A = placeholder((4, 3, 5))
k = reduce_axis((0, 5))
P = compute((4, 3), lambda i, j: sum(A[i, j, k], k))
C = compute((4, 3), lambda i, j: P[i, j])
# apply
_, j = get_loops("C")
loop_partition(j, [1, None])
i, _, _ = get_loops("P")
reverse_compute_at("C_j_common", i)
# refused OpaqueBlockError at block C_j_common, loop i: uses the variable of loop `i`

# ---- the step that initialises stays the first
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((1,))):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[5 - vi] = A[vi]
    for k in range(6):
        with T.block("C"):
            vk = T.axis.reduce(6, k)
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + B[vk]
# apply
reverse_compute_at("C", i)
# refused RepeatedReductionError at block C, loop i: reduction axis vk may not start at 0

# ---- steps follow tiles of a fused loop only in its order | ROW_SUMS
fuse(i, j)
split(i_j_fused, [12, 4])
reverse_compute_at("C", i_j_fused_1)

# ---- a reduction whose loops and tiles have remainders covers its tile
A = placeholder((10, 7, 5))
k = reduce_axis((0, 5))
Z = compute((10, 7), lambda i, j: sum(A[i, j, k], k))
D = compute((10, 7), lambda i, j: Z[i, j] * 2)
# apply
i, j, k = get_loops("Z")
split(k, [None, 2])
fuse(i, j)
split(i_j_fused, [None, 4])
reverse_compute_at("D", i_j_fused_1)

# ---- instances that a predicate leaves out do not come back
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(i < 5)
            C[vi] = B[vi]
# apply
(i,) = get_loops("B")
reverse_compute_at("C", i)
# refused LeftOutInstancesError at block C, loop i: may skip values of its axis vi

# ---- AXIS_FOLLOWS_LOOP_AROUND
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), D: T.Buffer((6, 8), "float32")):
    # with T.block("root"):
    E = T.alloc_buffer((8,))
    for i in range(6):
        for j in range(8):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(E[vj])
                E[vj] = A[vi, vj] * T.float32(2.0)
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(E[7 - vj])
                T.writes(D[vi, vj])
                D[vi, vj] = E[7 - vj]

# ---- an axis that follows a loop around both keeps to it | AXIS_FOLLOWS_LOOP_AROUND
get_loops("E")
# becomes
...

_, j = get_loops("E")
reverse_compute_at("D", j)
# refused LostIterationError at block D, loop j, loop i: block "D" cannot move under loop `j`: its axis vi uses loop `i`, a loop around both, and would run through all its values in each iteration of that loop

# ---- ONE_ROW
@T.prim_func
def main(A: T.Buffer((8, 16)), D: T.Buffer((1, 16, 1))):
    B = T.alloc_buffer((8, 16))
    for i_0, j_0, i_1, j_1 in T.grid(2, 4, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y, z in T.grid(1, 16, 1):
        with T.block("D"):
            v0, v1, v2 = T.axis.remap("SSS", [x, y, z])
            D[v0, v1, v2] = B[{row}, v1] + T.float32(1)

# ---- a row that one iteration writes is read in that one | ONE_ROW
# with {row} => 0
reverse_compute_at("D", j_0)
# blocks
...
i_0 2, j_0 4, ax0 4: D(0, j_0 * 4 + ax0, 0) where i_0 <= 0

# ---- ROWS_TWO_ITERATIONS_WRITE
@T.prim_func
def main(A: T.Buffer((8, 4)), D: T.Buffer((4,))):
    B = T.alloc_buffer((8, 4))
    E = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = A[vi, vj] * T.float32(3)
    for x in range(4):
        with T.block("D"):
            vx = T.axis.spatial(4, x)
            D[vx] = B[0, vx] + E[0, vx]

# ---- rows that two iterations write are not read in one | ROWS_TWO_ITERATIONS_WRITE
reverse_compute_at("D", i)

# with E[0 => E[1
reverse_compute_at("D", i)
# refused NotRegionCoverError at block D, loop i: block "D" cannot move under loop `i`, because there it would read elements that its producers have not written yet

# ==== tiles, quotients, remainders

# ---- IN_TILES
@T.prim_func
def main(A: T.Buffer((16, 16)), C: T.Buffer((4, 64))):
    B = T.alloc_buffer((16, 16))
    for i_0, j_0, i_1, j_1 in T.grid(4, 4, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            B[vi, vj] = A[vj, vi] * T.float32(2)
    for x, y in T.grid(4, 64):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx * 4 + vy // 16, vy % 16]

# ---- instances that read a tile lie apart | IN_TILES
reverse_compute_at("C", j_0)
# blocks
...
i_0 4, j_0 4, ax0 4, ax1 4: C(i_0, j_0 * 4 + ax1 + ax0 * 16)

# ---- loops of extent 1 of instances that lie apart | IN_TILES
reorder(i_0, i_1, j_0, j_1)
reverse_compute_at("C", j_0, preserve_unit_loops=True)
# blocks
alloc B(16, 16)
i_0 4, i_1 4, j_0 4, j_1 4: B(i_0 * 4 + i_1, j_0 * 4 + j_1)
i_0 4, i_1 4, j_0 4, ax0 1, ax1 4: C(i_0 + ax0, j_0 * 4 + i_1 * 16 + ax1)

# ---- PACKED
A = placeholder((32, 8))
B = compute((8, 2, 4, 4), lambda i, j, k, l: A[i * 4 + k, j * 4 + l] * 2)
C = compute((32, 8), lambda x, y: B[x // 4, y // 4, x % 4, y % 4])

# ---- packed tiles are unpacked below any loop | PACKED
reorder(i, j, k, l)
reverse_compute_at("C", i)
# blocks
...
i 8, ax0 4, ax1 8: C(i * 4 + ax0, ax1)

reorder(k, i, l, j)
reverse_compute_at("C", l)
# blocks
alloc B(8, 2, 4, 4)
k 4, i 8, l 4, j 2: B(i, j, k, l)
k 4, i 8, l 4, ax0 2: C(i * 4 + k, ax0 * 4 + l)

# ---- tiles of a part of a row that quotients cut differently are refused
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((24,))):
    B = T.alloc_buffer((4, 6))
    for f_0, f_1 in T.grid(6, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, (f_0 * 4 + f_1) // 6)
            vj = T.axis.spatial(6, (f_0 * 4 + f_1) % 6)
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x in range(24):
        with T.block("C"):
            vx = T.axis.spatial(24, x)
            C[vx] = B[vx // 6, vx % 6]
# apply
reverse_compute_at("C", f_0)
# refused NotRegionCoverError at block C, loop f_0: block "C" cannot move under loop `f_0`, because there it would read elements that its producers have not written yet
