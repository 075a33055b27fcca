"""merge: sibling loops become one loop."""

# ---- TWO_NESTS
A = placeholder((7, 4))
B = compute((7, 4), lambda i, j: A[i, j] * 2)
C = compute((7, 4), lambda x, y: B[x, y] + 1)

# ---- outer loops, and their inner loops | TWO_NESTS
i_m = merge(i, x)
# becomes
B = T.alloc_buffer((7, 4))
for i_m in range(7):
    for j in range(4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i_m, j])
            B[vi, vj] = A[vi, vj] * T.float32(2.0)
    for y in range(4):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [i_m, y])
            C[vx, vy] = B[vx, vy] + T.float32(1.0)

merge(j, y)
# blocks
alloc B(7, 4)
i_m 7, j_m 4: B(i_m, j_m)
i_m 7, j_m 4: C(i_m, j_m)

# ---- trace | TWO_NESTS
merge(i, x)
# recorded
l6 = sch.merge(l1, l4)
["Merge", ["l1", "l4"], [], ["l6"]]

# ---- three nests with a statement between
A = placeholder((5,))
B = compute((5,), lambda i: A[i] + 1)
C = compute((5,), lambda x: A[x] * 3)
E = compute((3,), lambda e: A[e])
D = compute((5,), lambda y: B[y] * C[y])
# apply
merge(i, x, y)
# blocks
...
i_m 5: B(i_m)
i_m 5: C(i_m)
i_m 5: D(i_m)

# ---- nests below two conditions
@T.prim_func
def main(A: T.Buffer((5,)), B: T.Buffer((5,)), C: T.Buffer((5,)), n: T.int32):
    with T.block("root"):
        if n > 0:
            for i in range(5):
                with T.block("B"):
                    vi = T.axis.spatial(5, i)
                    B[vi] = A[vi] + T.float32(1)
        else:
            for x in range(5):
                with T.block("C"):
                    vi = T.axis.spatial(5, x)
                    C[vi] = A[vi] * T.float32(3)
# apply
merge(i, x)
# refused LoopsNotSiblingsError at loop i, loop i: loop `i` and loop `i` are not in separate statements directly below their common ancestor

# ---- reading what a later iteration makes | TWO_NESTS
# with B[vx, vy] + => B[6 - vx, vy] +
merge(i, x)
# refused DependencyOrderError at block B, block C: would run before

# with B[vx, vy] + => B[(vx + 1) % 7, vy] +
merge(i, x)
# refused DependencyOrderError at block B, block C: would run before

# ---- a consumer before its producer, and what is overwritten too early | TWO_NESTS
merge(x, i)
# refused DependencyOrderError at block B, block C: in the merged loops block "C", which depends on block "B", would run before block "B" is complete

# with C[vx, vy] = B[vx, vy] + T.float32(1) => A[6 - vx, vy] = T.float32(0)
merge(i, x)
# refused DependencyOrderError at block B, block C: in the merged loops block "C", which depends on block "B", would run before block "B" is complete

# ---- without checks a consumer may come first | TWO_NESTS
# enable_check=False
merge(x, i)
# not interpreted

# ---- loops that are not alike | TWO_NESTS
merge(i, y)
# refused DifferentDepthError at loop i, loop y: loop `i` is at depth 1 below the common ancestor, loop `y` at depth 2

merge(i, j)
# refused LoopsNotSiblingsError at loop i, loop i: loop `i` and loop `i` are not in separate statements directly below their common ancestor

merge(i, i)
# refused LoopsNotSiblingsError at loop i, loop i: loop `i` and loop `i` are not in separate statements directly below their common ancestor

annotate(x, "x", 1)
merge(i, x)
# refused HasAnnotationOrThreadBindingError at loop x: the primitive needs a loop without annotation or thread binding, but loop `x` has one

outer, _ = split(i, [None, 2])
merge(outer, x)
# refused DifferentExtentError at loop i_0, loop x: loop `i_0` has extent 4, which is not provably the extent 7 of loop `x`

first, _ = loop_partition(i, [3])
merge(first, x)
# refused NotInSameScopeError at loop i0, loop x: loop `i0` and loop `x` are not in the same block scope

# ---- a loop that starts elsewhere
@T.prim_func
def main(A: T.Buffer((7,)), B: T.Buffer((7,)), C: T.Buffer((7,))):
    for i in range(1, 7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi]
    for x in range(1, 7):
        with T.block("C"):
            vi = T.axis.spatial(7, x)
            C[vi] = A[vi]
# apply
merge(i, x)
# refused LoopNotStartWithZeroError at loop i: the primitive only supports loops that start with 0, but loop `i` starts at 1

# ---- a nest with a second statement
@T.prim_func
def main(A: T.Buffer((2, 3)), B: T.Buffer((2, 3)), C: T.Buffer((2, 3)), D: T.Buffer((2,))):
    for i in range(2):
        for j in range(3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        with T.block("D"):
            vi = T.axis.spatial(2, i)
            D[vi] = T.float32(1)
    for x, y in T.grid(2, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = A[vi, vj]
# apply
merge(j, y)
# refused NotOnlyChildError at loop i, loop j: loop `j` is not the only child of loop `i`

# ---- CALLS
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = T.call_extern("float32", "draw")
    for x in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, x)
            B[v] = T.call_extern("float32", "draw")

# ---- calls of two nests keep their order | CALLS
merge(i, x)
# refused OpaqueCallError at block B: another order

# with A[v] = T.call_extern => A[v] = T.call_pure_extern
merge(i, x)
# not interpreted
