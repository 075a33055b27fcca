"""cache_read: readers use a copy of a buffer."""

# ==== what is cached

# ---- ADD
A = placeholder((8, 6))
B = compute((8, 6), lambda i, j: A[i, j] + 1)

# ---- a parameter is copied at the start | ADD
cache_read("B", 0, "local")
# becomes
A_local = T.alloc_buffer((8, 6), scope="local")
for ax0, ax1 in T.grid(8, 6):
    with T.block("A_local"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        A_local[v0, v1] = A[v0, v1]
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A_local[vi, vj] + T.float32(1.0)

# ---- buffers by index by name and as objects | ADD
cache_read("B", 0, "local")
# blocks
alloc A_local(8, 6) local
ax0 8, ax1 6: A_local(ax0, ax1)
i 8, j 6: B(i, j)

# ---- TWO_READERS
A = placeholder((8,))
W = placeholder((3,))
B = compute((8,), lambda i: A[i] * W[2])
C = compute((8,), lambda i: B[i] + A[i])
D = compute((8,), lambda i: B[i] - A[i])

# ---- all readers use the copy | TWO_READERS
cache_read("D", 1, "local")
# blocks
alloc B(8), A_local(8) local
ax0 8: A_local(ax0)
...

# ---- only some readers use the copy | TWO_READERS
cache_read("C", 1, "local", consumer_blocks=["C", "D"])
# blocks
alloc B(8), A_local(8) local
ax0 8: A_local(ax0)
...

# ---- the region of a writer with a predicate
@T.prim_func
def main(A: T.Buffer((14,)), C: T.Buffer((14,))):
    B = T.alloc_buffer((14,))
    for i_0, i_1 in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(14, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 14)
            B[vi] = A[vi] + T.float32(1)
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi]
# apply
cache_read("C", 0, "local")
# blocks
alloc B(14), B_local(14) local
i_0 4, i_1 4: B(i_0 * 4 + i_1) where i_0 * 4 + i_1 < 14
ax0 14: B_local(ax0)
i 14: C(i)

# ---- OVERWRITTEN
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(3)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]

# ---- what is overwritten later is copied at the start | OVERWRITTEN
cache_read("B", 0, "local")
# blocks
alloc A_local(8) local
ax0 8: A_local(ax0)
...

# ---- readers on the other side of the writer read other values | OVERWRITTEN
cache_read("B", 0, "local", consumer_blocks=["B", "D"])
# refused NotConsumerError at block B, block D, block A: block "A" overwrites them

cache_read("D", 0, "local", consumer_blocks=["D", "C"])
# refused NotConsumerError at block D, block C, block A: block "A" overwrites them

# ---- CARRIED
@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("A"):
            vi = T.axis.opaque(8, i)
            A[vi + 1] = B[vi] + T.float32(3)

# ---- what the last iteration wrote is copied in each iteration | CARRIED
cache_read("B", 0, "local")
# blocks
alloc A_local(9) local
i 8: C(i)
i 8, ax0 1: A_local(i + ax0)
...

# ---- before the loop the first values are read | CARRIED
cache_read("C", 0, "local")
# blocks
alloc A_local(9) local
ax0 9: A_local(ax0)
...

# ---- BRANCHES
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        if i % 2 == 0:
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
        else:
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = B[vi]

# ---- below a condition the copy is made there | BRANCHES
cache_read("C", 0, "local", consumer_blocks=["C"])
# blocks
alloc B_local(8) local
i 8, if i % 2 == 0: B(i)
i 8, if i % 2 == 0, ax0 1: B_local(i + ax0)
...

# ---- a reader in another case of the condition finds no copy | BRANCHES
cache_read("C", 0, "local")
# refused InsertionPointNotFoundError at block C, block D: also runs where a condition around the first does not hold

cache_read("D", 0, "local", consumer_blocks=["D"])
# refused InsertionPointNotFoundError at block B, block D: they are in different cases of one condition

# ==== handles

# ---- handles | ADD
B = get_block("B")
i, j = get_loops(B)
A_local = cache_read(B, 0, "local")
reorder(j, i)
compute_at(A_local, j)
# handles
B: block "B"
i: for i in range(8)
j: for j in range(6)
A_local: block "A_local"

# ---- trace | ADD
cache_read("B", 0, "shared")
# recorded
b1 = sch.cache_read(block=b0, read_buffer_index=0, storage_scope="shared")
["CacheRead", ["b0", []], [0, "shared"], ["b1"]]

# ==== refused

# ---- refused: invalid storage scope, buffer index out of range | ADD
cache_read("B", 0, "nowhere")
# refused InvalidStorageScopeError at block B: 'nowhere'

cache_read("B", 9, "globl")
# refused InvalidStorageScopeError at block B: storage scope

cache_read("B", 1, "local")
# refused BufferIndexOutOfRangeError at block B: 1 read region

cache_read("B", -1, "local")
# refused BufferIndexOutOfRangeError at block B: buffer_index

# ---- refused: root block | DECLARING_ROOT
cache_read("root", 0, "local")
# refused RootBlockError at block root: root block

# ---- PARTLY_WRITTEN
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A[vi]

# ---- refused: not region cover | PARTLY_WRITTEN
cache_read("C", 0, "local")
# refused NotRegionCoverError at block root, block C: region cover

cache_read("C", "A", "local")
# refused NotRegionCoverError at block root, block C: region cover

# ---- refused: not consumer | TWO_READERS
cache_read("C", "B", "local", consumer_blocks=["B"])
# refused NotConsumerError at block C: none of the consumer_blocks reads B

# ---- refused: not single write block
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("B_again"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
# apply
cache_read("C", 0, "local")
# refused NotSingleWriteBlock at block root: 2 write

# ---- a buffer that the block does not read | ADD
# becomes
...

cache_read("B", "B", "local")
# refused ArgumentError: `read_buffer_index` names a buffer that the block writes, but the primitive needs a buffer that it reads

cache_read("B", "X", "local")
# refused ArgumentError: `read_buffer_index` names "X", but block "B" touches only ['A', 'B']

cache_read("B", 1.0, "local")
# refused ArgumentError: `read_buffer_index` takes an index, a buffer or the name of one, got float: 1.0

# ---- a reader that is no block | ADD
cache_read("B", 0, "local", consumer_blocks=["B", 3])
# refused ArgumentError: `consumer_blocks[1]` takes a BlockRV or the name of a block, got int: 3

# ---- constants are copied where they are defined | CONSTANTS
cache_read("C", 1, "global")
cache_read("C", 0, "global")
# blocks
alloc B_global(4), A_global(4)
ax0 4: A_global(ax0)
ax0 4: B_global(ax0)
i 4: C(i)
