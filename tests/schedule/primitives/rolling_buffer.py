"""rolling_buffer: of what a window slides over, only the window itself is kept."""

# ==== the window

# ---- LINE
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(16):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]

# ---- a window that slides by one | LINE
rolling_buffer("B", 0)
# becomes
B = T.alloc_buffer((3,))
for i in range(16):
    for k in range(3):
        with T.block("B"):
            vb = T.axis.opaque(18, i + k)
            T.where(i < 1 or 2 <= k)
            B[vb % 3] = A[vb] * T.float32(2.0)
    with T.block("C"):
        vi = T.axis.opaque(16, i)
        C[vi] = B[vi % 3] + B[(vi + 1) % 3] + B[(vi + 2) % 3]

# ---- WINDOW_DOES_NOT_MOVE
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((9,))):
    B = T.alloc_buffer((16,))
    for i in range(9):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(16, i * 3 // 2 + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            T.reads(B[vi * 3 // 2:vi * 3 // 2 + 3])
            T.writes(C[vi])
            C[vi] = B[vi * 3 // 2] + B[vi * 3 // 2 + 1] + B[vi * 3 // 2 + 2]

# ---- a window that does not move by the same each time (2) | WINDOW_DOES_NOT_MOVE
rolling_buffer("B", 0)
# becomes
B = T.alloc_buffer((3,))
for i in range(9):
    for k in range(3):
        with T.block("B"):
            vb = T.axis.opaque(16, i * 3 // 2 + k)
            T.where(i < 1 or 1 <= k)
            B[vb % 3] = A[vb] * T.float32(2.0)
    with T.block("C"):
        vi = T.axis.opaque(9, i)
        C[vi] = B[vi * 3 // 2 % 3] + B[(vi * 3 // 2 + 1) % 3] + B[(vi * 3 // 2 + 2) % 3]

# with 16 => 8 ; 3 // 2 => 2 // 3
rolling_buffer("B", 0)
# blocks
alloc B(3)
i 9, k 3: B(?i * 2 // 3 + k) where i < 1 or 2 <= k
i 9: C(?i)

# ---- IMAGE
A = placeholder((8, 8))
B = compute((8, 8), lambda i, j: A[i, j] * 2)
r = reduce_axis((0, 3))
s = reduce_axis((0, 3))
C = compute((6, 6), lambda i, j: sum(B[i + r, j + s], (r, s)))

# ---- rows of an image | IMAGE
i, *_ = get_loops("C")
compute_at("B", i)
rolling_buffer("B", 0)
# blocks
alloc B(3, 8)
i 6, ax0 3, ax1 8: B(?i + ax0, ax1) where i < 1 or 2 <= ax0
i 6, j 6, r 3, s 3: C(?i, j, +r, +s)

# ---- a dimension that slides in an outer loop is computed again | IMAGE
# Where the rows have rolled through in between, the columns of before are gone.
i, j, *_ = get_loops("C")
reorder(j, i)
compute_at("B", i)
rolling_buffer("B", 0)
# blocks
alloc B(3, 8)
j 6, i 6, ax0 3, ax1 3: B(?i + ax0, j + ax1) where i < 1 or 2 <= ax0
j 6, i 6, r 3, s 3: C(?i, j, +r, +s)

# ==== the blocks around

# ---- several consumers
@T.prim_func
def main(A: T.Buffer((10,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((10,))
    for i in range(8):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(10, i + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi + 2]
# apply
rolling_buffer("B", 0)
# blocks
alloc B(3)
i 8, k 3: B(?i + k) where i < 1 or 2 <= k
i 8: C(?i)
i 8: D(?i)

# ---- a predicate of the block stays | IMAGE
i, *_ = get_loops("C")
split(i, [None, 4])
compute_at("B", i_0)
rolling_buffer("B", 0)
# blocks
alloc B(6, 8)
i_0 2, ax0 6, ax1 8: B(?i_0 * 4 + ax0, ax1) where i_0 * 4 + ax0 < 8 and (i_0 < 1 or 2 <= ax0)
i_0 2, i_1 4, j 6, r 3, s 3: C(?i_0 * 4 + i_1, j, +r, +s) where i_0 * 4 + i_1 < 6

# ---- a reduction that fills the window
@T.prim_func
def main(A: T.Buffer((18, 5)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(16):
        for k in range(3):
            for r in range(5):
                with T.block("B"):
                    vb = T.axis.spatial(18, i + k)
                    vr = T.axis.reduce(5, r)
                    with T.init():
                        B[vb] = T.float32(0)
                    B[vb] = B[vb] + A[vb, vr]
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
# apply
rolling_buffer("B", 0)
# blocks
alloc B(3)
i 16, k 3, r 5: B(?i + k, +r) where i < 1 or 2 <= k
i 16: C(?i)

# ---- one of two buffers
@T.prim_func
def main(A: T.Buffer((10,)), C: T.Buffer((8,))):
    M = T.alloc_buffer((10,))
    N = T.alloc_buffer((10,))
    for i in range(8):
        for k in range(3):
            with T.block("both"):
                vb = T.axis.spatial(10, i + k)
                T.reads(A[vb])
                T.writes(M[vb], N[vb])
                M[vb] = A[vb] * T.float32(2)
                N[vb] = A[vb] * T.float32(3)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = M[vi] + N[vi + 2]
# apply
rolling_buffer("both", 1)
# blocks
alloc M(10), N(3)
i 8, k 3: both(?i + k) where i < 1 or 2 <= k
i 8: C(?i)

# ---- CHAIN_WINDOWS
A = placeholder((12,))
B = compute((12,), lambda i: A[i] * 2)
C = compute((10,), lambda i: B[i] + B[i + 2])
D = compute((8,), lambda i: C[i] * C[i + 2])

# ---- a chain of windows | CHAIN_WINDOWS
(i,) = get_loops("D")
compute_at("C", i)
compute_at("B", i)
rolling_buffer("B", 0)
rolling_buffer("C", 0)
# blocks
alloc B(5), C(3)
i 8, ax0 5: B(?i + ax0) where i < 1 or 4 <= ax0
i 8, ax0 3: C(?i + ax0) where i < 1 or 2 <= ax0
i 8: D(?i)

(i,) = get_loops("D")
compute_at("C", i)
compute_at("B", i)
rolling_buffer("B", 0)
rolling_buffer("B", 0)
# refused NotStagePipelineError at block root, block C: the scope block "root" is not a stage pipeline around block "B". A stage pipeline has only blocks whose reads are covered by their producers, and no block that overwrites what an earlier one reads; here block "C" reads more than its producers write

# ==== handles and trace

# ---- handles | LINE
B = get_block("B")
C = get_block("C")
i, k = get_loops(B)
rolling_buffer(B, 0)
# handles
B: block "B"
C: block "C"
i: for i in range(16)
k: for k in range(3)

# ---- trace | LINE
rolling_buffer("B", 0)
# recorded
sch.rolling_buffer(block=b0, write_buffer_index=0)
["RollingBuffer", ["b0"], [0], []]

# ==== refused

# ---- refused: buffer index out of range, root block | LINE
rolling_buffer("B", 1)
# refused BufferIndexOutOfRangeError at block B: `buffer_index` is 1, but block "B" has 1 write region(s)

rolling_buffer("B", -1)
# refused BufferIndexOutOfRangeError at block B: count from 0

rolling_buffer("root", 0)
# refused RootBlockError at block root: root block

# ---- refused: output block | LINE
rolling_buffer("C", 0)
# refused OutputBlockError at block C: block "C" is an output block

# ---- refused: rolling buffer dependency (2) | LINE
# with B[vb] = A[vb] * T.float32(2) => B[vb] = B[vb] + A[vb]
rolling_buffer("B", 0)
# refused RollingBufferDependencyError at block B, block B: block "B" accesses elements that block "B" has not written

# ---- refused: rolling buffer insertion
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = A[vi] * T.float32(2)
# apply
rolling_buffer("B", 0)
# refused RollingBufferInsertionError at block B: no common loop along which a window slides

# ---- refused: opaque access | LINE
# with C[vi] = B[vi] + B[vi + 1] + B[vi + 2] => T.reads(B[vi:vi + 3])\nT.writes(C[vi])\nV = T.match_buffer(B[vi:vi + 3], (3,), offset_factor=1)\nC[vi] = V[0] + V[2]
rolling_buffer("B", 0)
# refused OpaqueAccessError at block root: B has an opaque access in block "root"

# ---- FROM_A_SCALAR
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    X = T.alloc_buffer((1,))
    for i in range(16):
        with T.block("X"):
            vx = T.axis.spatial(16, i)
            X[0] = A[vx]
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                B[vb] = A[vb] * X[0]
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]

# ---- refused: stale value | FROM_A_SCALAR
rolling_buffer("B", 0)
# refused StaleValueError at block B, block X: in block "X", axis vx = `i` decides what is stored in X, but not where

# with vx = T.axis.spatial(16, i)\nX[0] = A[vx] => X[0] = X[0] + T.float32(1)
rolling_buffer("B", 0)
# refused StaleValueError at block B, block X: in block "X", the value stored in X depends on the previous one

# ---- a window that is not indexed by an axis alone | LINE
# with vb = T.axis.spatial(18, i + k)\nB[vb] = A[vb] * T.float32(2) => vi = T.axis.spatial(16, i)\nvk = T.axis.spatial(3, k)\nB[vi + vk] = A[vi + vk] * T.float32(2)
rolling_buffer("B", 0)
# refused RollingBufferMatchError at block B: dimension 0 is not indexed by an axis of the block alone

# ---- a condition that is another one in each iteration | LINE
# with 3 => 4 ; B[vb] = A[vb] * T.float32(2) => T.where(k < 3)\nB[vb] = A[vb] * T.float32(2)
rolling_buffer("B", 0)
# refused StaleValueError at block B, block B: in block "B", the condition `k < 3` is not the same for an element in each iteration

# ---- a buffer that the block only reads | LINE
rolling_buffer("B", "A")
# refused ArgumentError: `write_buffer_index` names a buffer that the block reads, but the primitive needs a buffer that it writes

# ==== no window

# ---- an iteration writes the same elements as the one before | LINE
# with 18 => 3 ; i + k => k ; B[vi] + B[vi + 1] + B[vi + 2] => B[0] + B[2]
rolling_buffer("B", 0)
# refused RollingBufferMatchError at block B: an iteration writes 0 to 2 of B, no dimension of which slides with overlap: no dimension starts at a loop variable

# ---- windows that grow | LINE
# with 16 => 9 ; range(3) => range(i + 2) ; + B[vi + 1] + B[vi + 2] => + B[vi + 1]
rolling_buffer("B", 0)
# refused RollingBufferMatchError at block B: an iteration writes i to i * 2 + 1 of B, no dimension of which slides with overlap: its extent along i is not constant

# ---- windows side by side | LINE
# with 16 => 8 ; 18 => 16 ; 3 => 2 ; i + k => i * 2 + k ; B[vi] + B[vi + 1] + B[vi + 2] => B[vi * 2] + B[vi * 2 + 1]
rolling_buffer("B", 0)
# refused RollingBufferMatchError at block B: an iteration writes i * 2 to i * 2 + 1 of B, no dimension of which slides with overlap: the windows of two iterations of i do not overlap

# ---- windows along a diagonal
@T.prim_func
def main(A: T.Buffer((18, 18)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18, 18))
    for i in range(16):
        for k, l in T.grid(3, 3):
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                vd = T.axis.spatial(18, i + l)
                B[vb, vd] = A[vb, vd] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi, vi] + B[vi + 2, vi]
# apply
rolling_buffer("B", 0)
# refused RollingBufferMatchError at block B: an iteration writes i to i + 2, i to i + 2 of B, no dimension of which slides with overlap: loop i moves other dimensions as well

# ---- a loop that is not serial, or does not start at 0 | LINE
# with for i in range(16): => for i in T.parallel(16):
rolling_buffer("B", 0)
# refused RollingBufferMatchError at block B: an iteration writes i to i + 2 of B, no dimension of which slides with overlap: loop i is not serial from 0

# with for i in range(16): => for i in range(1, 17): ; i + k => i + k - 1 ; spatial(16, i) => spatial(16, i - 1)
rolling_buffer("B", 0)
# refused RollingBufferMatchError at block B: an iteration writes i - 1 to i + 1 of B, no dimension of which slides with overlap: no dimension starts at a loop variable
