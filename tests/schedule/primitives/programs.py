"""Programs that the cases of several primitives start from."""

# ---- COPY
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
            C[vi] = B[vi] * T.float32(2)

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
            C[vi, vj] = B[vi, vj] + T.float32(1)

# ---- AFTER_A_SUM
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i, k in T.grid(8, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi]

# ---- ROW_SUMS
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [x, y])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]

# ---- VECTOR
@T.prim_func
def main(A: T.Buffer((128,)), B: T.Buffer((128,))):
    for i in range(128):
        with T.block("B"):
            vi = T.axis.spatial(128, i)
            B[vi] = A[vi] * T.float32(2)

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
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)

# ---- CUBE
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), B: T.Buffer((4, 6, 8))):
    for i, j, k in T.grid(4, 6, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

# ---- MATMUL
@T.prim_func
def main(A: T.Buffer((3, 5)), B: T.Buffer((5, 4)), C: T.Buffer((3, 4))):
    for i, j, k in T.grid(3, 4, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

# ---- NARROW_STAGES
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)

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
