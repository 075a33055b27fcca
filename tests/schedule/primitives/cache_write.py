"""cache_write: a block writes a buffer of its own, which is copied back."""

# ==== what is cached

# ---- MATMUL_2
A = placeholder((8, 5))
B = placeholder((5, 6))
k = reduce_axis((0, 5))
C = compute((8, 6), lambda i, j: sum(A[i, k] * B[k, j], k))

# ---- an output is copied back at the end | MATMUL_2
cache_write("C", 0, "global")
# becomes
C_global = T.alloc_buffer((8, 6))
for i, j, k in T.grid(8, 6, 5):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C_global[vi, vj] = T.float32(0.0)
        C_global[vi, vj] = C_global[vi, vj] + A[vi, vk] * B[vk, vj]
for ax0, ax1 in T.grid(8, 6):
    with T.block("C_global"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        C[v0, v1] = C_global[v0, v1]

# ---- TWO_OUTPUTS
@T.prim_func
def main(A: T.Buffer((8,)), M: T.Buffer((8,)), N: T.Buffer((8,))):
    for i in range(8):
        with T.block("both"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(M[vi], N[vi])
            M[vi] = A[vi] + T.float32(1)
            N[vi] = A[vi] + T.float32(2)

# ---- one of two outputs | TWO_OUTPUTS
cache_write("both", 0, "local")
# blocks
alloc M_local(8) local
i 8: both(i)
ax0 8: M_local(ax0)

# ---- a buffer object names the output | TWO_OUTPUTS
cache_write("both", 1, "local")
# blocks
alloc N_local(8) local
i 8: both(i)
ax0 8: N_local(ax0)

# ---- EVERY_OTHER
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((16,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi * 2] = A[vi]

# ---- views in the writer follow the cache | EVERY_OTHER
# with ,)), B: T.Buffer((16, => , 4)), C: T.Buffer((8, 4 ; B => C
# with C[vi * 2] = A[vi] => T.reads(A[vi, 0:4])\nT.writes(C[vi, 0:4])\nV = T.match_buffer(C[vi, 0:4], (4,), offset_factor=1)\nfor j in range(4):\n    V[j] = A[vi, j]
cache_write("C", 0, "global")
# blocks
alloc C_global(8, 4)
i 8: C(i)
ax0 8, ax1 4: C_global(ax0, ax1)

# ---- a writer with blocks inside moves to the cache as a whole
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi * 4 + vj])
                    T.writes(B[vi * 4 + vj])
                    B[vi * 4 + vj] = A[vi * 4 + vj]
# apply
cache_write("outer", 0, "global")
# blocks
alloc B_global(8)
...
ax0 8: B_global(ax0)

# ==== old values

# ---- UPDATE
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,))):
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = X[vi] + A[vi]

# ---- what a block reads and writes is filled first | UPDATE
cache_write("X", 0, "local")
# blocks
alloc X_local(8) local
ax0 8: X_local(ax0)
i 8: X(i)
ax0 8: X_local(ax0)

# ---- stores and blocks under a condition | EVERY_OTHER
# with with T.block("B"):\nvi = T.axis.spatial(8, i)\nB[vi * 2] = A[vi] => if i % 2 == 1:\n  with T.block("B"):\n      vi = T.axis.spatial(8, i)\n      B[vi] = A[vi]
cache_write("B", 0, "local")
# blocks
alloc B_local(8) local
ax0 8: B_local(ax0)
i 8, if i % 2 == 1: B(i)
ax0 8: B_local(ax0)

# ---- INIT
@T.prim_func
def main(A: T.Buffer((5, 4)), C: T.Buffer((5,))):
    for i, k in T.grid(5, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where({where})
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + {read}

# ---- an init that stores less than is read | INIT
# with T.where({where}) => T.where(True)\nT.reads() ; {read} => C[vk]
cache_write("C", 0, "local")
# refused UnsafeStageError at block C: it reads the earlier contents of the buffer without declaring that

# with {where} => i <= k ; {read} => C[vk]
cache_write("C", 0, "local")
# blocks
alloc C_local(8) local
ax0 8: C_local(ax0) where ax0 < 5
i 5, k 4: C(i, +k) where i <= k
ax0 5: C_local(ax0)

# with T.where({where}) => T.where(i <= k)\nT.reads() ; {read} => C[vk]
cache_write("C", 0, "local")
# refused UnsafeStageError at block C: it reads the earlier contents of the buffer without declaring that

# ---- ITERATIONS_RUN_AT_SAME
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8,))):
    for i in T.parallel(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                if A[vi, vj] > T.float32(0):
                    B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi, 0]

# ---- iterations that run at the same time do not copy back what they left out | ITERATIONS_RUN_AT_SAME
cache_write("B", 0, "local")
# refused UnsafeStageError at block B: it may skip elements that concurrent iterations may write

# with parallel => serial
cache_write("B", 0, "local")

# ==== other readers

# ---- CARRIED
@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("A"):
            vi = T.axis.opaque(8, i)
            A[vi + 1] = B[vi] + T.float32(3)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]

# ---- a reader in the next iteration waits for the copy | CARRIED
cache_write("A", 0, "local")
# blocks
alloc A_local(9) local
...
i 8, ax0 1: A_local(i + 1 + ax0)
i 8: C(i)

# ---- a reader before the writer has nothing to read in the cache | CARRIED
cache_write("A", 0, "local", consumer_blocks=["B"])
# refused NotConsumerError at block A, block B, block A: block "B" reads values of A that the cache of block "A" does not hold

# ---- a reader that uses the cache must find all it reads there | CARRIED
cache_write("A", 0, "local", consumer_blocks=["C"])
# refused NotRegionCoverError at block root, block C: more of A

# ---- a condition that reads the buffer | CARRIED
# with C[vi] = A[vi] => T.where(A[i] > T.float32(0))\nC[vi] = T.float32(1)
cache_write("A", 0, "local")
# refused BareAccessError at block A, block root: is also read outside of the blocks

# ---- where the block stores depends on memory that it changes | EVERY_OTHER
# with 8 => 4 ; 16,) => 8,)), N: T.Buffer((1,), "int32"
# with vi = T.axis.spatial(4, i)\nB[vi * 2] = A[vi] => vi = T.axis.opaque(4, i)\nx: T.int32 = T.max(T.min(N[0], 6), 0)\nN[0] = x + 1\nB[x] = A[vi]
cache_write("B", 1, "local")
# blocks
alloc B_local(8) local
ax0 8: B_local(ax0)
i 4: B(?i)
ax0 8: B_local(ax0)

# ==== handles

# ---- handles | MATMUL_2
C = get_block("C")
i, j, k = get_loops(C)
C_local = cache_write(C, 0, "local")
reverse_compute_at(C_local, i)
C_init = decompose_reduction(C, k)
# handles
C: block "C_update"
i: for i in range(8)
j: for j in range(6)
k: for k in range(5)
C_local: block "C_local"
C_init: block "C_init"

# ---- trace | MATMUL_2
cache_write("C", 0, "global")
# recorded
b1 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="global")
["CacheWrite", ["b0", []], [0, "global"], ["b1"]]

# ==== refused

# ---- refused: invalid storage scope, buffer index out of range | MATMUL_2
cache_write("C", 0, "L1")
# refused InvalidStorageScopeError at block C: 'L1'

cache_write("C", 5, "L1")
# refused InvalidStorageScopeError at block C: storage scope

cache_write("C", 1, "local")
# refused BufferIndexOutOfRangeError at block C: `buffer_index` is 1, but block "C" has 1 write region(s)

cache_write("C", -1, "local")
# refused BufferIndexOutOfRangeError at block C: count

# ---- refused: root block | DECLARING_ROOT
cache_write("root", 0, "local")
# refused RootBlockError at block root: root block

# ---- refused: not single write block | MATMUL_2
C = get_block("C")
decompose_reduction(C, i)
cache_write(C, 0, "local")
# refused NotSingleWriteBlock at block root: single block

# ---- a buffer that the block does not write | MATMUL_2
# becomes
...

cache_write("C", "A", "local")
# refused ArgumentError: `write_buffer_index` names a buffer that the block reads, but the primitive needs a buffer that it writes

cache_write("C", 0, None)
# refused ArgumentError: `storage_scope` takes str, got NoneType: None

# ---- without checks a block may leave out elements | EVERY_OTHER
# enable_check=False
cache_write("B", 0, "local")
# blocks, not interpreted
alloc B_local(15) local
i 8: B(i)
ax0 15: B_local(ax0)

# ---- WRITES_THEN_READS
@T.prim_func
def main(B: T.Buffer((8,)), C: T.Buffer((8,))):
    A = T.alloc_buffer((8,))
    for i in range(2):
        with T.block("both"):
            vo = T.axis.spatial(2, i)
            for j in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    A[vi] = T.float32(1)
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * T.float32(2)

# ---- what a block reads of its own stores is not filled first | WRITES_THEN_READS
cache_write("both", 0, "local")
# blocks
alloc A(8), A_local(8) local
...
ax0 8: A_local(ax0)
i 8: C(i)

# ---- what a block reads before it stores is filled first | WRITES_THEN_READS
# with def main(B: T.Buffer((8,)), C: T.Buffer((8,))):\nA = T.alloc_buffer((8,)) => def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
# with vi] + => 7 - vi] +
cache_write("both", 0, "local")
# blocks
alloc A_local(8) local
ax0 8: A_local(ax0)
...
ax0 8: A_local(ax0)
i 8: C(i)

# with def main(B: T.Buffer((8,)), C: T.Buffer((8,))):\nA = T.alloc_buffer((8,)) => def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
# with for j in range(4):\nwith T.block("A"): => for j in range(3):\n    with T.block("A"):
cache_write("both", 0, "local")
# blocks
alloc A_local(8) local
ax0 8: A_local(ax0)
...
ax0 7: A_local(ax0)
i 8: C(i)

# ---- the copy of a result stays with the constants of the scope | CONSTANTS
cache_write("C", 0, "global")
# blocks
alloc C_global(4)
i 4: C(i)
ax0 4: C_global(ax0)
