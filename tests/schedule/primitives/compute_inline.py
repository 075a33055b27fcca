"""compute_inline: consumers compute what they read from a block themselves."""

# ==== what is substituted

# ---- the value takes the place of the load | STAGES
compute_inline("B")
# becomes
for x, y in T.grid(8, 6):
    with T.block("C"):
        vx, vy = T.axis.remap("SS", [x, y])
        C[vx, vy] = A[vx, vy] * T.float32(2.0) + T.float32(1.0)

# ---- axes in the value
@T.prim_func
def main(C: T.Buffer((8, 6), "int32")):
    B = T.alloc_buffer((8, 6), "int32")
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = vi * 10 + vj
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[7 - vx, vy]
# apply
compute_inline("B")
# becomes
for x, y in T.grid(8, 6):
    with T.block("C"):
        vx, vy = T.axis.remap("SS", [x, y])
        C[vx, vy] = (7 - vx) * 10 + vy

# ---- indices in another order | STAGES
# with alloc_buffer((8, 6 => alloc_buffer((6, 8 ; B[vi, vj => B[vj, vi ; B[vx, vy => B[vy, vx
compute_inline("B")
# lines
C[vx, vy] = A[vx, vy] * T.float32(2.0) + T.float32(1.0)

# ---- a buffer that is flattened
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((24,))):
    B = T.alloc_buffer((24,))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 6 + vj] = A[vi, vj]
    for x in range(24):
        with T.block("C"):
            vx = T.axis.spatial(24, x)
            C[vx] = B[vx]
# apply
compute_inline("B")
# lines
C[vx] = A[vx // 6, vx % 6]

# ---- into a reduction
A = placeholder((8, 5))
W = placeholder((5, 6))
B = compute((8, 5), lambda i, k: T.max(A[i, k], 0))
z = reduce_axis((0, 5))
C = compute((8, 6), lambda x, y: sum(B[x, z] * W[z, y], z))
# apply
compute_inline("B")
# lines
C[vx, vy] = C[vx, vy] + T.max(A[vx, vz], T.float32(0.0)) * W[vz, vy]

# ---- a predicate that only splits is dropped
@T.prim_func
def main(A: T.Buffer((7,)), C: T.Buffer((7,))):
    B = T.alloc_buffer((7,))
    for i_0, i_1 in T.grid(2, 4):
        with T.block("B"):
            vi = T.axis.spatial(7, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 7)
            B[vi] = A[vi] + T.float32(1)
    for x in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, x)
            C[vi] = B[vi]
# apply
compute_inline("B")
# lines
C[vi] = A[vi] + T.float32(1.0)

# ---- 64 bit indices | STAGES
# with 8, 6 => T.int64(8), T.int64(6) ; 2 => 3
compute_inline("B")
# lines
C[vx, vy] = A[vx, vy] * T.float32(3.0) + T.float32(1.0)

# ---- CHAIN_PRODUCERS
A = placeholder((8,))
B = compute((8,), lambda i: A[i] + 1)
C = compute((8,), lambda i: B[7 - i] * 2)
D = compute((8,), lambda i: C[i] - 3)

# ---- a chain of producers | CHAIN_PRODUCERS
compute_inline("B")
compute_inline("C")
# lines
D[vi] = (A[7 - vi] + T.float32(1.0)) * T.float32(2.0) - T.float32(3.0)

compute_inline("C")
compute_inline("B")
# lines
D[vi] = (A[7 - vi] + T.float32(1.0)) * T.float32(2.0) - T.float32(3.0)

# ==== handles

# ---- handles | STAGES
B = get_block("B")
C = get_block("C")
i, j = get_loops(B)
x, y = get_loops(C)
compute_inline(B)
reorder(y, x)
# handles
B: gone, compute-inline replaced it
C: block "C"
i: gone, compute-inline replaced it
j: gone, compute-inline replaced it
x: for x in range(8)
y: for y in range(6)

# ---- trace | STAGES
compute_inline("B")
# recorded
sch.compute_inline(block=b0)
["ComputeInline", ["b0"], [], []]

# ==== refused

# ---- an argument of another type | STAGES
get_loops("B")
# lines

compute_inline(i)
# refused ArgumentError: `block` takes a BlockRV or the name of a block, got LoopRV: LoopRV(l1: for i in range(8))

# ---- refused: an init | AFTER_A_SUM
compute_inline("B")
# refused HasInitBlock at block B: has an init statement

# ---- refused: no stage pipeline, an output, no complete block | STAGES
# with C[vx, vy] = B[vx, vy] + T.float32(1) => A[7 - vx, vy] = B[vx, vy]
compute_inline("B")
# refused NotStagePipelineError at block root, block C: block "C" overwrites A, which block "B" reads before

# with i, j in T.grid(8, 6) => i, j in T.grid(8, 5)
compute_inline("B")
# refused NotStagePipelineError at block root, block C: block "C" reads more than its producers write

compute_inline("C")
# refused OutputBlockError at block C: writes C

# with A[vi, vj] * T.float32(2) => B[vi, vj] * T.float32(2)
compute_inline("B")
# refused IncompleteBlockError at block B: violates condition #3

# with vi, vj = T.axis.remap("SS", [i, j]) => vi = T.axis.spatial(8, i)\nvj = T.axis.opaque(6, j)
compute_inline("B")
# refused IncompleteBlockError at block B: violates condition #1

# with B[vi, vj] = A[vi, vj] * T.float32(2) => for k in range(1):\n    B[vi, vj] = A[vi, vj]
compute_inline("B")
# refused BodyAnalysisError at block B: not a single store

# with C[vx, vy] = B[vx, vy] + T.float32(1) => T.reads(B[0:8, 0:6])\nT.writes(C[vx, vy])\nC[vx, vy] = T.call_extern("float32", "f", B.data, vx, vy)
compute_inline("B")
# refused OpaqueAccessError at block root: B has an opaque access

# ---- refused: a view | STAGES
# with x, y in T.grid(8, 6) => x in range(8)
# with vx, vy = T.axis.remap("SS", [x, y]) => vx = T.axis.spatial(8, x)\nT.reads(B[vx, 0:6])\nT.writes(C[vx, 0:6])
# with C[vx, vy] = B[vx, vy] + T.float32(1) => V = T.match_buffer(B[vx, 0:6], (6,), offset_factor=1)\nfor y in range(6):\n    C[vx, y] = V[y]
compute_inline("B")
# refused OpaqueAccessError at block root: match_buffer

# ---- refused: two buffers
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("both"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi], D[vi])
            B[vi] = A[vi]
            D[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] + D[vi]
# apply
compute_inline("both")
# refused NotSingleReadWriteBuffer at block both: a single buffer region that it writes, but it has 2

# ---- refused: the root block | DECLARING_ROOT
compute_inline("root")
# refused RootBlockError at block root: root block

# ---- refused: no bijective store
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi % 4] = A[vi]
    for x in range(4):
        with T.block("C"):
            vx = T.axis.spatial(4, x)
            C[vx] = B[vx]
# apply
compute_inline("B")
# refused BodyAnalysisError at block B: not a bijective affine map

# ---- refused: only leaf
@T.prim_func
def main(A: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
# apply
compute_inline("B")
# refused OnlyLeafError at block B, block root: only leaf of block

# ---- without checks the scope need not be a stage pipeline | STAGES
# enable_check=False
# with i, j in T.grid(8, 6) => i, j in T.grid(8, 5)
compute_inline("B")
# lines, not interpreted
C[vx, vy] = A[vx, vy] * T.float32(2.0) + T.float32(1.0)

# ==== values and calls

# ---- INTEGERS
@T.prim_func
def main(C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = {value}
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = {use}

# ---- arithmetic that wraps on what was loaded still does | INTEGERS
# with {value} => v + 2147483640 ; {use} => (B[v] + 1) // 2
compute_inline("B")
# lines
C[v] = (T.reinterpret("int32", v + 2147483640) + 1) // 2

# with {value} => v + 2147483640 ; {use} => (B[v] + 1) // 2
reverse_compute_inline("C")
# lines
C[v] = (T.reinterpret("int32", v + 2147483640) + 1) // 2

# with {value} => 2147483647 ; {use} => (B[v] + v) // 2
reverse_compute_inline("C")
# lines
C[v] = (T.reinterpret("int32", 2147483647) + v) // 2

# with {value} => v ; {use} => (B[v] * 2000000000) // 7
compute_inline("B")
# lines
C[v] = T.reinterpret("int32", v) * 2000000000 // 7

# with {value} => v ; {use} => T.Cast('int32', T.Cast('int64', B[v] * 2000000000) // T.int64(7))
compute_inline("B")
# lines
C[v] = T.Cast("int32", T.Cast("int64", T.reinterpret("int32", v) * 2000000000) // T.int64(7))

# with {value} => v ; {use} => T.Cast('int32', T.Cast('int64', B[v] * 2000000000) // T.int64(7))
reverse_compute_inline("C")
# lines
C[v] = T.Cast("int32", T.Cast("int64", T.reinterpret("int32", v) * 2000000000) // T.int64(7))

# ---- integers that their type holds are inlined as they are | INTEGERS
# with {value} => v * 3 + 5 ; {use} => (B[v] + 1) // 2
compute_inline("B")
# lines
C[v] = (v * 3 + 5 + 1) // 2

# with {value} => v * 3 + 5 ; {use} => (B[v] + 1) // 2
reverse_compute_inline("C")
# lines
C[v] = (v * 3 + 5 + 1) // 2

# ---- a variable that held what was loaded holds a value still
@T.prim_func
def main(C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = v + 2147483640
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            with T.LetStmt(B[v]) as x:
                C[v] = (x + 1) // 2
# apply
compute_inline("B")

# ---- DRAWN
A = placeholder((8,))
B = compute((8,), lambda i: T.call_extern("float32", "draw", A[i]))
C = compute((8,), lambda i: B[i] + B[i])

# ---- a call with a side effect runs as often as it does | DRAWN
compute_inline("B")
# refused OpaqueCallError at block B: a different number of times

reverse_compute_inline("C")
# refused OpaqueCallError at block B: a different number of times

(i,) = get_loops("C")
compute_at("B", i)
# refused OpaqueCallError at block B: a different number of times

# ---- DRAWING
A = placeholder((8,))
B = compute((8,), lambda i: A[i])
C = compute((8,), lambda i: T.call_extern("float32", "draw", B[i]))

# ---- a call with a side effect runs as often as it does (2) | DRAWING
reverse_compute_inline("C")
# refused OpaqueCallError at block C: a different number of times

(i,) = get_loops("B")
reverse_compute_at("C", i)
# refused OpaqueCallError at block C: a different number of times

# ---- a pure call is inlined | DRAWN
# with call_extern("float32", "draw => call_pure_extern("float32", "sinf
compute_inline("B")
# not interpreted

# ==== reads in conditions

# ---- PREDICATE
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            T.where(B[x, y] < T.float32(1))
            C[vi, vj] = B[vi, vj] + T.float32(1)

# ---- a predicate that reads the buffer | PREDICATE
compute_inline("B")
# lines
T.where(A[x, y] * T.float32(2.0) < T.float32(1.0))
C[vi, vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)

# ---- conditions that read what is not complete are refused | PREDICATE
# with B[vi, vj] = A[vi, vj] * T.float32(2)\nfor x, y in T.grid(8, 6): => B[vi, vj] = A[vi, vj] * T.float32(2)
# with x, y => i, j
compute_inline("B")
# refused BareAccessError at block B, block root: B, which block

# with 6): => 5):
compute_inline("B")
# refused BareAccessError at block B, block root: B, which block

# ---- NO_AXES
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            T.reads(A[i])
            T.writes(B[i])
            B[i] = A[i] * T.float32(2)
    for j in range(8):
        with T.block("C"):
            T.reads(B[j])
            T.writes(C[j])
            C[j] = B[j] + T.float32(1)

# ---- blocks without axes stay in the loops that they use | NO_AXES
compute_inline("B")
# refused OpaqueBlockError at block B, loop i: has no axes and uses the variable of

reverse_compute_inline("C")
# refused OpaqueBlockError at block C, loop j: has no axes and uses the variable of
