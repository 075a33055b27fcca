"""Reordering loops."""

# ==== the nest

# ---- two loops take each others places | CUBE
reorder(k, i)
# becomes
for k, j, i in T.grid(8, 6, 4):
    ...

# ---- loops outside of the range stay | CUBE
reorder(k, j)
# becomes
for i, k, j in T.grid(4, 8, 6):
    ...

# ---- loops in order stay | CUBE
reorder(i, k)
# becomes
...

# ---- less than two loops change nothing but are recorded | CUBE
get_loops("B")
reorder()
# becomes
...

reorder(j)
# becomes
...

# ---- SEVERAL_BLOCKS_BELOW_INNERMOST
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((5, 4)), C: T.Buffer((5, 4))):
    for i, j in T.grid(5, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)

# ---- several blocks below the innermost loop | SEVERAL_BLOCKS_BELOW_INNERMOST
reorder(j, i)
# becomes
for j, i in T.grid(4, 5):
    ...

# ---- SQUARES
@T.prim_func
def main(A: T.Buffer((20, 3)), B: T.Buffer((20, 3))):
    for o, i, j in T.grid(3, 4, 3):
        with T.block("B"):
            vi = T.axis.spatial(20, o * o * 4 + i)
            vj = T.axis.spatial(3, j)
            B[vi, vj] = A[vi, vj] * T.float32(2)

# ---- a binding that is affine from the outermost named loop on | SQUARES
reorder(j, i)
# becomes
for o, j, i in T.grid(3, 3, 4):
    ...

# ---- a range may depend on a loop that stays outside
@T.prim_func
def main(A: T.Buffer((4, 8, 3)), B: T.Buffer((4, 8, 3))):
    for o in range(4):
        for i in range(o + 1):
            for j in range(3):
                with T.block("B"):
                    T.reads(A[o, i, j])
                    T.writes(B[o, i, j])
                    B[o, i, j] = A[o, i, j] * T.float32(2)
# apply
reorder(j, i)
# blocks
o 4, j 3, i o + 1: B()

# ==== handles and trace

# ---- all handles stay | CUBE
B = get_block("B")
i, j, k = get_loops(B)
reorder(k, i)
k_2, j_2, i_2 = get_loops(B)
reorder(i, j, k)
# handles
B: block "B"
i: for i in range(4)
j: for j in range(6)
k: for k in range(8)
k_2: for k in range(8)
j_2: for j in range(6)
i_2: for i in range(4)

# ---- trace | CUBE
reorder(k, i)
# recorded
sch.reorder(l3, l5)
["Reorder", ["l3", "l5"], [], []]

# ==== refused

# ---- refused: loop multi appearance | CUBE
reorder(i, j, i)
# refused LoopMultiAppearanceError at loop i: multiple times

# ---- STAGES_2
@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4)), C: T.Buffer((10,))):
    for i in range(10):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi, 0]
    for x in range(4):
        with T.block("D"):
            vx = T.axis.spatial(4, x)
            B[0, vx] = B[0, vx] + T.float32(1)

# ---- refused: loops not achain | STAGES_2
reorder(j, x)
# refused LoopsNotAChainError at loop x, loop j: loop `x` and loop `j` are not under the same scope

# ---- refused: loops not achain (3) | STAGES_2
reorder(j, i)
# refused LoopsNotAChainError at loop i: loop `i` has several statements below it

# ---- refused: block property
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((5, 4))):
    for i, j in T.grid(5, 4):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            vj = T.axis.opaque(4, j)
            B[vi, vj] = A[vi, vj] * T.float32(2)
# apply
reorder(j, i)
# refused BlockPropertyError at block B: data-parallel and reduce on axis vj

# ---- refused: not affine binding | SQUARES
reorder(i, o)
# refused NotAffineBindingError at block B: block "B" is required to have a partial affine binding under o

# ---- refused: dependent loop
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                T.reads(A[i, j])
                T.writes(B[i, j])
                B[i, j] = A[i, j] * T.float32(2)
# apply
reorder(j, i)
# refused DependentLoopError at loop j: the range of loop `j` is dependent on the loop variable i

# ---- REPEATED
@T.prim_func
def main(A: T.Buffer((3, 5)), C: T.Buffer((3,))):
    for i, r, k in T.grid(3, 2, 5):
        with T.block("C"):
            vi, vk = T.axis.spatial(3, i), T.axis.reduce(5, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]

# ---- refused: block property (2) | REPEATED
reorder(k, r)
# refused BlockPropertyError at loop k: in the new order, the steps of a reduction below loop `k` do not each run once with the initialising step first, because loop `r` runs the same steps several times

# ---- the block that is not affine is the one marked | SEVERAL_BLOCKS_BELOW_INNERMOST
# with 5, 4 => 4, 6 ; ] + T.float32(1) => ]
# with vi, vj = T.axis.remap("SS", [i, j])\nC[vi, vj] = B[vi, vj] => vi = T.axis.spatial(4, i)\nvj = T.axis.spatial(6, (i + j) % 6)\nC[vi, vj] = A[vi, vj]
reorder(j, i)
# refused NotAffineBindingError at block C: block "C" is required to have a partial affine binding under i

# ---- a loop that repeats the whole reduction may move further out | REPEATED
reorder(r, i)
# becomes
for r, i, k in T.grid(2, 3, 5):
    ...

# ---- FUSED_TILES
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for g, f_0, f_1 in T.grid(2, 3, 4):
        with T.block("C"):
            vi = T.axis.spatial(4, (f_0 * 4 + f_1) // 3)
            vk = T.axis.reduce(6, (f_0 * 4 + f_1) % 3 * 2 + g)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]

# ---- loops that count through axes of both kinds keep their order | FUSED_TILES
reorder(f_0, g)
# becomes
for f_0, g, f_1 in T.grid(3, 2, 4):
    ...

reorder(f_1, f_0)
# refused BlockPropertyError at loop f_1: `f_1`, `f_0` drive data-parallel and reduction axes, but are nested in another order

# ---- what an axis is bound to is followed through lets | FUSED_TILES
# with with T.block("C"): => row: T.int32 = (f_0 * 4 + f_1) // 3\nwith T.block("C"):
# with (f_0 * 4 + f_1) // 3) => row)
reorder(f_1, f_0)
# refused BlockPropertyError at loop f_1: `f_1`, `f_0` drive data-parallel and reduction axes, but are nested in another order

# ---- a reduction that starts late keeps the order of its loops
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((1,))):
    for i, k, l in T.grid(1, 4, 6):
        with T.block("C"):
            vi = T.axis.spatial(1, i)
            vk, vl = T.axis.reduce(4, 3 - k), T.axis.reduce(6, l)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vk, vl]
# apply
reorder(l, k)
# refused BlockPropertyError at loop l: because reduction axis vk may not start at 0

# ---- AXIS_SKIPS_OR_REPEATS
@T.prim_func
def main(A: T.Buffer((4, 32)), B: T.Buffer((4, 32))):
    for i, l in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vl = T.axis.spatial(32, l * 8)
            B[vi, vl] = A[vi, vl] * T.float32(2)

# ---- an axis that skips or repeats values by itself may be reordered | AXIS_SKIPS_OR_REPEATS
reorder(l, i)

# with * 8 => // 2
reorder(l, i)

# with * 8 => % 3
reorder(l, i)

# ---- axes that do not follow loops one by one are refused | AXIS_SKIPS_OR_REPEATS
# with 8 => l
reorder(l, i)
# refused NotAffineBindingError at block B: affine binding

# with l * 8 => i * l
reorder(l, i)
# refused NotAffineBindingError at block B: affine binding

# with l * 8 => i + l
reorder(l, i)
# refused NotAffineBindingError at block B: affine binding

# with 8 => 2 + i
reorder(l, i)
# refused NotAffineBindingError at block B: affine binding

# ---- axes whose instances are independent pass one whose instances write the same element
@T.prim_func
def main(A: T.Buffer((16, 3)), B: T.Buffer((4, 4))):
    for i, j, k in T.grid(4, 4, 3):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            for a, b in T.grid(1, 1):
                B[(vi * 4 + vj) // 4 + a, (vi * 4 + vj) % 4 + b] = A[vi * 4 + vj + b, vk + a]
# apply
reorder(j, i)
# becomes
for j, i, k in T.grid(4, 4, 3):
    ...
