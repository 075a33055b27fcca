"""reverse_compute_inline: a producer stores what its consumer made of its values."""

# ==== what is substituted

# ---- the producer stores the final value | STAGES
reverse_compute_inline("C")
# becomes
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)

# ---- other inputs of the consumer | STAGES
# with A: => D: T.Buffer((6,)), A: ; B[vx, vy] + T.float32(1 => T.max(B[vx, vy] + D[vy], B[vx, vy]
reverse_compute_inline("C")
# becomes
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.max(A[vi, vj] * T.float32(2.0) + D[vj], A[vi, vj] * T.float32(2.0))

# ---- CONSUMER_FLATTENS
A = placeholder((8, 6))
B = compute((8, 6), lambda i, j: A[i, j] * 2)
C = compute((48,), lambda x: B[x // 6, x % 6])

# ---- a consumer that flattens | CONSUMER_FLATTENS
reverse_compute_inline("C")
# lines
C[vi * 6 + vj] = A[vi, vj] * T.float32(2.0)

# ---- DIAGONAL
A = placeholder((4, 4))
B = compute((4, 4), lambda i, j: A[i, j])
C = compute((16,), lambda x: B[x % 4, x % 4])

# ---- axes in the value of the consumer | DIAGONAL
# with )) => ), "int32") ; A[vi, vj] => A[vi, vj] + 1 ; % 4, vx % 4] => // 4, vx % 4] * vx
reverse_compute_inline("C")
# lines
C[vi * 4 + vj] = (A[vi, vj] + 1) * (vi * 4 + vj)

# ==== consumers of a part only

# ---- a consumer of a part gives the producer a predicate | COPY
# with 16,))): => 10,))): ; x in range(16 => x in range(10 ; 16, x => 10, x
reverse_compute_inline("C")
# lines
T.where(i < 10)
C[vi] = (A[vi] + T.float32(1.0)) * T.float32(2.0)

# ---- a consumer that flattens padded tiles | CONSUMER_FLATTENS
# with 8, 6 => 4, 4 ; 48 => 14 ; 6, vx % 6 => 4, vx % 4
reverse_compute_inline("C")
# lines
T.where(i * 4 + j < 14)
C[vi * 4 + vj] = A[vi, vj] * T.float32(2.0)

# ==== chains, loops, names

# ---- CHAIN_CONSUMERS
A = placeholder((8,))
B = compute((8,), lambda i: A[i] + 1)
C = compute((8,), lambda i: B[i] * 2)
D = compute((8,), lambda i: C[i] - 3)

# ---- a chain of consumers | CHAIN_CONSUMERS
reverse_compute_inline("C")
reverse_compute_inline("D")
# lines
D[vi] = (A[vi] + T.float32(1.0)) * T.float32(2.0) - T.float32(3.0)

reverse_compute_inline("D")
reverse_compute_inline("C")
# lines
D[vi] = (A[vi] + T.float32(1.0)) * T.float32(2.0) - T.float32(3.0)

# ---- 64 bit indices | COPY
# with 16 => T.int64(16)
reverse_compute_inline("C")
# lines
C[vi] = (A[vi] + T.float32(1.0)) * T.float32(2.0)

# ==== handles

# ---- handles | STAGES
B = get_block("B")
C = get_block("C")
i, j = get_loops(B)
x, y = get_loops(C)
reverse_compute_inline(C)
reorder(j, i)
# handles
B: block "B"
C: gone, reverse-compute-inline replaced it
i: for i in range(8)
j: for j in range(6)
x: gone, reverse-compute-inline replaced it
y: gone, reverse-compute-inline replaced it

# ---- trace | STAGES
reverse_compute_inline("C")
# recorded
sch.reverse_compute_inline(block=b0)
["ReverseComputeInline", ["b0"], [], []]

# ==== refused

# ---- refused: has init block | ROW_SUMS
reverse_compute_inline("C")
# refused HasInitBlock at block C: has an init statement

# ---- refused: root block | COPY
reverse_compute_inline("root")
# refused RootBlockError at block root: root block

# ---- refused: not single read write buffer (2) | COPY
reverse_compute_inline("B")
# refused NotSingleReadWriteBuffer at block B: a single buffer region that it reads, but it has 0

# ---- refused: incomplete block, non single producer | COPY
# with vx = T.axis.spatial => vx = T.axis.opaque
reverse_compute_inline("C")
# refused IncompleteBlockError at block C: violates condition #1

# ---- refused: non single producer | AFTER_A_SUM
reverse_compute_inline("C")
# refused NonSingleProducerError at block C: a complete block

# ---- refused: output block, non single consumer, body analysis
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,)), C: T.Buffer((16,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = B[vx] * T.float32(2)
# apply
reverse_compute_inline("C")
# refused OutputBlockError at block B: writes B

@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            for y in range(6):
                C[vx, y] = B[vx, y]
# apply
reverse_compute_inline("C")
# refused BodyAnalysisError at block C: not a single store

@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            for j in range(6):
                B[vi, j] = A[vi, j]
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx, vy]
# apply
reverse_compute_inline("C")
# refused BodyAnalysisError at block B: not a single store

@T.prim_func
def main(D: T.Buffer((16,)), A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = B[vx] * T.float32(2)
    for z in range(16):
        with T.block("D"):
            vz = T.axis.spatial(16, z)
            D[vz] = B[vz]
# apply
reverse_compute_inline("C")
# refused NonSingleConsumerError at block C, block D: both block "C" and block "D" read it

# ---- refused: body analysis | COPY
# with * => + B[15 - vx] *
reverse_compute_inline("C")
# refused BodyAnalysisError at block C: loaded at different indices

# with B[vx => B[(vx * vx) % 16
reverse_compute_inline("C")
# refused BodyAnalysisError at block C: not affine

# ---- refused: body analysis (2)
A = placeholder((8,))
B = compute((8,), lambda i: A[i])
C = compute((10,), lambda x: T.if_then_else(x < 8, B[x], 0))
# apply
reverse_compute_inline("C")
# refused BodyAnalysisError at block C: runs for elements that 'B' does not store

# ---- refused: body analysis (3) | DIAGONAL
reverse_compute_inline("C")
# refused BodyAnalysisError at block C: read the same element

# ---- refused: opaque access
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            T.reads(B[vx])
            T.writes(C[vx])
            V = T.match_buffer(B[vx], (1,), offset_factor=1)
            C[vx] = B[vx] + V[0]
# apply
reverse_compute_inline("C")
# refused OpaqueAccessError at block root: match_buffer

# ---- an argument of another type | COPY
reverse_compute_inline(None)
# refused ArgumentError: `block` takes a BlockRV or the name of a block, got NoneType: None

# ==== instances that do not all run

# ---- PREDICATES
@T.prim_func
def main(A: T.Buffer((30,)), C: T.Buffer((30,))):
    B = T.alloc_buffer((30,))
    for i in range(30):
        with T.block("B"):
            vi = T.axis.spatial(30, i)
            B[vi] = A[vi] * T.float32(2)
    for x, y in T.grid(4, 8):
        with T.block("C"):
            vx = T.axis.spatial(30, x * 8 + y)
            T.where({})
            C[vx] = B[vx] + T.float32(1)

# ---- a predicate of the consumer becomes one of the producer | PREDICATES
# with {} => x * 8 + y < 30
reverse_compute_inline("C")
# lines
C[vi] = A[vi] * T.float32(2.0) + T.float32(1.0)

# with {} => y < 5 and x * 8 + y < 30
reverse_compute_inline("C")
# lines
T.where(i % 8 < 5)
C[vi] = A[vi] * T.float32(2.0) + T.float32(1.0)

# with {} => x < 2 or y < 5
reverse_compute_inline("C")
# lines
T.where(i < 16 or i % 8 < 5)
C[vi] = A[vi] * T.float32(2.0) + T.float32(1.0)

# ---- instances that do not follow from the axes are refused | PREDICATES
# with 8 + => 7 + ; {} => x * 7 + y < 25
reverse_compute_inline("C")
# refused BodyAnalysisError at block C: its predicate is not a function of its axes

# ---- CONDITION
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((10,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(B[vi])
            if vi < 10:
                B[vi] = A[vi] + T.float32(1)
    for x in range(10):
        with T.block("C"):
            vx = T.axis.spatial(10, x)
            C[vx] = B[vx]

# ---- a condition in the body of the producer stays, or joins the predicate | CONDITION
# enable_check=False
# with 10 => 16 ; vi < 16 => A[vi] > T.float32(0)
reverse_compute_inline("C")
# becomes, not interpreted
for i in range(16):
    with T.block("B"):
        vi = T.axis.spatial(16, i)
        if A[vi] > T.float32(0.0):
            C[vi] = A[vi] + T.float32(1.0)

# enable_check=False
reverse_compute_inline("C")
# lines, not interpreted
T.where(i < 10)
C[vi] = A[vi] + T.float32(1.0)

# enable_check=False
# with vi < 10 => 3 <= vi
reverse_compute_inline("C")
# lines, not interpreted
T.where(i < 10 and 3 <= i)
C[vi] = A[vi] + T.float32(1.0)
