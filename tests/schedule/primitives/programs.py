"""Programs that the cases of several primitives start from."""

# ---- COPY
A = placeholder((16,))
B = compute((16,), lambda i: A[i] + 1)
C = compute((16,), lambda x: B[x] * 2)

# ---- MATMUL_RELU
@T.prim_func
def main(A: T.Buffer((8, 5)), W: T.Buffer((5, 6)), R: T.Buffer((8, 6))):
    M = T.alloc_buffer((8, 6))
    for i, j, k in T.grid(8, 6, 5):
        with T.block("M"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                M[vi, vj] = T.float32(0)
            M[vi, vj] = M[vi, vj] + A[vi, vk] * W[vk, vj]
    for x, y in T.grid(8, 6):
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [x, y])
            R[vi, vj] = T.max(M[vi, vj], T.float32(0))

# ---- OVERWRITES
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi]
    for z in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, z)
            A[vi] = T.float32(0)

# ---- STAGES
A = placeholder((8, 6))
B = compute((8, 6), lambda i, j: A[i, j] * 2)
C = compute((8, 6), lambda x, y: B[x, y] + 1)

# ---- AFTER_A_SUM
A = placeholder((8, 6))
k = reduce_axis((0, 6))
B = compute((8,), lambda i: sum(A[i, k], k))
C = compute((8,), lambda x: B[x])

# ---- ROW_SUMS
A = placeholder((8, 6))
B = compute((8, 6), lambda i, j: A[i, j] * 2)
y = reduce_axis((0, 6))
C = compute((8,), lambda x: sum(B[x, y], y))

# ---- VECTOR
A = placeholder((128,))
B = compute((128,), lambda i: A[i] * 2)

# ---- SYMBOLIC
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * T.float32(2)

# ---- MATRIX
A = placeholder((8, 12))
B = compute((8, 12), lambda i, j: A[i, j] * 2)

# ---- CUBE
A = placeholder((4, 6, 8))
B = compute((4, 6, 8), lambda i, j, k: A[i, j, k] * 2)

# ---- MATMUL
A = placeholder((3, 5))
B = placeholder((5, 4))
k = reduce_axis((0, 5))
C = compute((3, 4), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- NARROW_STAGES
A = placeholder((8, 4))
B = compute((8, 4), lambda i, j: A[i, j] * 2)
C = compute((8, 4), lambda i, j: B[i, j] + 1)

# ---- VIEW
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(B[vi, 0:4])
            row = T.match_buffer(B[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    row[vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)

# ---- TILES
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    for i_0, i_1 in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.spatial(32, i_0 * 8 + i_1)
            B[vi] = A[vi] * T.float32(2)

# ---- TILED_STAGES
@T.prim_func
def main(A: T.Buffer((33,)), B: T.Buffer((32,)), C: T.Buffer((32,))):
    for i_0 in range(4):
        for i_1 in range(8):
            with T.block("B"):
                vi = T.axis.spatial(32, i_0 * 8 + i_1)
                B[vi] = A[vi] * T.float32(2)
        for i_1 in range(8):
            with T.block("C"):
                vi = T.axis.spatial(32, i_0 * 8 + i_1)
                C[vi] = B[vi] + A[vi + 1]

# ---- TWO_NESTS_IN_A_LOOP
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

# ---- TILE_IN_A_BLOCK
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi * 4 + vj])
                    T.writes(B[vi * 4 + vj])
                    B[vi * 4 + vj] = A[vi * 4 + vj] + T.float32(1)

# ---- DECLARING_ROOT
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

# ---- CONSTANTS
@T.prim_func
def main(A: T.Buffer((4,)), C: T.Buffer((4,))):
    data = T.allocate_const([0.0, 1.0, 2.0, 3.0], "float32", [4])
    B = T.decl_buffer((4,), data=data)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + B[vi]

# ---- OVERWRITES_ITS_INPUT
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = T.float32(0)

# ---- SHARED_LOOPS
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,)), C: T.Buffer((4,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi]
