"""Staging a buffer that a block updates in place."""

# ---- UPDATE
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(A[vi, vj])
            A[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]

# ---- element by element | UPDATE
cache_inplace("A", 0, "local")
# blocks
alloc A_local(7, 4) local
i 7, j 4, ax0 1, ax1 1: A_local(i + ax0, j + ax1)
i 7, j 4: A(i, j)
i 7, j 4, ax0 1, ax1 1: A_local(i + ax0, j + ax1)
i 7, j 4: C(i, j)

# ---- WHOLE
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(1):
        with T.block("A"):
            T.reads(A[0:6])
            T.writes(A[2:8])
            for j in range(6):
                if j % 2 == 0:
                    A[j + 2] = A[j] + 1

# ---- what the block leaves alone comes back | WHOLE
cache_inplace("A", 0, "local")

# ---- refused: not read write, invalid storage scope, buffer index out of range | UPDATE
cache_inplace("C", 0, "local")
# refused NotReadWriteError at block C: block "C" does not both read and write A

cache_inplace("A", 0, "nowhere")
# refused InvalidStorageScopeError at block A: unknown storage scope 'nowhere'

cache_inplace("A", 2, "local")
# refused BufferIndexOutOfRangeError at block A: the argument `buffer_index` is 2, but block "A" has 1 read region(s)

# ---- refused: unsafe stage | WHOLE
# with 8] => 9]
cache_inplace("A", 0, "local")
# refused UnsafeStageError at block A: block "A" cannot use a copy of A: the copy would touch 9 elements from 0 on in a dimension of 8

# ---- refused: not region cover
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < 3)
            A[vi, vj] = C[vi, vj]
    for i, j in T.grid(7, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(A[vi, vj])
            A[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
# apply
cache_inplace("A", 0, "local")
# refused NotRegionCoverError at block root, block A: the scope block "root" has block "A", whose region cover does not hold: it reads more of A than is written before
