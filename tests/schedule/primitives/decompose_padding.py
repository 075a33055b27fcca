"""decompose_padding: the border is filled first, then the inside is stored without asking."""

# ==== the loop

# ---- IMAGE
A = placeholder((6, 5))
P = compute((8, 9), lambda i, j: T.if_then_else(all(1 <= i, i < 7, 2 <= j, j < 7), A[i - 1, j - 2], 0))

# ---- at the outermost loop all loops become shorter | IMAGE
decompose_padding("P", i)
# becomes
for i, j in T.grid(8, 9):
    with T.block("P_pad_const"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = T.float32(0.0)
for i, j in T.grid(6, 5):
    with T.block("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi + 1, vj + 2] = A[vi, vj]

# ---- LINE
A = placeholder((12,))
P = compute((16,), lambda i: T.if_then_else(all(3 <= i, i < 15), A[i - 3], 0))

# ---- axes of several loops keep a predicate | LINE
split(i, [4, 4])
decompose_padding("P", i_1)
# blocks
i_0 4, i_1 4: P_pad_const(i_0 * 4 + i_1)
i_0 4, i_1 4: P(i_0 * 4 + i_1 - 3) where 3 <= i_0 * 4 + i_1 and i_0 * 4 + i_1 < 15

# ---- a predicate of the block stays on both | LINE
split(i, [None, 5])
decompose_padding("P", i_0)
# blocks
i_0 4, i_1 5: P_pad_const(i_0 * 5 + i_1) where i_0 * 5 + i_1 < 16
i_0 4, i_1 5: P(i_0 * 5 + i_1 - 3) where i_0 * 5 + i_1 < 16 and 3 <= i_0 * 5 + i_1 and i_0 < 3

# ---- other blocks in the loop keep its length
@T.prim_func
def main(A: T.Buffer((4, 6)), P: T.Buffer((6, 6)), B: T.Buffer((6, 6))):
    for i in range(6):
        for j in range(6):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = T.if_then_else(vi < 4, A[vi, vj], T.float32(0))
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vi, vj]
# apply
_, j = get_loops("P")
decompose_padding("P", j)
# blocks
i 6, j 6: P_pad_const(i, j)
i 6, j 6: P(i, j) where i < 4
i 6, j 6: B(i, j)

# ==== the condition

# ---- forms of the same condition | LINE
decompose_padding("P", i)
# blocks
i 16: P_pad_const(i)
i 12: P(i)

# ---- padding on one side only | LINE
# with 3 <= vi and vi < 15, A[vi - 3], T.float32(0 => vi < 12, A[vi], T.float32(-1
decompose_padding("P", i)
# blocks
i 16: P_pad_const(i)
i 12: P(i)

# ---- what is computed inside moves along | LINE
# with A[vi - 3] => T.exp(A[vi - 3]) * T.Cast("float32", vi)
decompose_padding("P", i)
# blocks
i 16: P_pad_const(i)
i 12: P(i)

# ---- regions that are declared move along | IMAGE
# with P[vi, vj] = T.if_then_else( => T.reads(A[0:6, vj - 2])\nT.writes(P[vi, vj])\nP[vi, vj] = T.if_then_else(
decompose_padding("P", i)
# blocks
i 8, j 9: P_pad_const(i, j)
i 6, j 5: P(i, j)

# ==== handles and trace

# ---- handles | IMAGE
P = get_block("P")
i, j = get_loops(P)
P_pad_const = decompose_padding(P, i)
i_2, j_2 = get_loops(P_pad_const)
# handles
P: block "P"
i: for i in range(6)
j: for j in range(5)
P_pad_const: block "P_pad_const"
i_2: for i in range(8)
j_2: for j in range(9)

# ---- trace | IMAGE
decompose_padding("P", j)
# recorded
b4 = sch.decompose_padding(block=b3, loop=l2)
["DecomposePadding", ["b3", "l2"], [], ["b4"]]

# ---- asking is not recorded and changes nothing | IMAGE
decompose_padding("P", i)
# blocks
i 8, j 9: P_pad_const(i, j)
i 6, j 5: P(i, j)

# ==== refused

# ---- TWO
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(16):
        with T.block("P"):
            vi = T.axis.spatial(16, i)
            P[vi] = T.if_then_else(3 <= vi and vi < 15, A[vi - 3], T.float32(0))
    for l in range(16):
        with T.block("B"):
            vl = T.axis.spatial(16, l)
            B[vl] = P[vl]

# ---- refused: loop position | TWO
decompose_padding("P", l)
# refused LoopPositionError at loop l, block P: loop `l` is not an ancestor of block "P"

# ---- refused: root block | LINE
decompose_padding("root", i)
# refused RootBlockError at block root: root block

# ---- refused: incomplete block (2) | LINE
# with vi and vi < 15, A => vi, P
decompose_padding("P", i)
# refused IncompleteBlockError at block P: violates condition #3

# ---- refused: incomplete block (3) | TWO
# with B[vl] = P[vl => P[vl] = A[0
decompose_padding("P", i)
# refused IncompleteBlockError at block P: violates condition #2

# ---- what is no padding | LINE
# with P[vi] = T.if_then_else(3 <= vi and vi < 15, A[vi - 3], T.float32(0)) => P[vi] = T.if_then_else(3 <= vi, A[vi - 3], T.float32(0))\nP[vi] = A[0]
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: its body is not a single store

# with P[vi] = T.if_then_else(3 <= vi and vi < 15, A[vi - 3], T.float32(0)) => if 3 <= vi:\n    P[vi] = A[vi - 3]
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: its body is not a single store

# with T.if_then_else(3 <= vi and vi < 15, A[vi - 3], T.float32(0)) => A[T.min(vi, 11)]
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: the stored value is not an if_then_else

# with if_then_else(3 <= vi and vi < 15, A[vi - 3] => Select(vi < 12, T.float32(1)
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: the stored value is not an if_then_else

# with T.float32(0) => A[0]
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: the value that it stores outside is not constant

# with A[vi - 3] => T.call_extern("float32", "sinf", A[vi - 3])
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: computing what it stores inside has an effect

# with 3 <= vi and vi < 15 => A[0] < T.float32(1) and vi < 12
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: its condition depends on data

# ---- what is no padding (3) | LINE
# with 16) => 13) ; 16, i => (3, 16), i + 3
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: the domain of axis vi is not constant

# with 3 <= vi and vi < 15 => vi % 2 == 0
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: `vi % 2 == 0` does not bound one axis by a constant

# with and vi < 15 => or vi < 2
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: `3 <= vi or vi < 2` does not bound one axis by a constant

# with 3 <= vi and vi < 15 => 6 <= vi * 2
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: `6 <= vi * 2` does not bound one axis by a constant

# with 3 <= vi and vi < 15 => vi != 3
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: `vi != 3` does not bound one axis by a constant

# ---- what is no padding (4) | IMAGE
# with vi < 7 and 2 <= vj and => 2 <= vj and vi +
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: `vi + vj < 7` does not bound one axis by a constant

# ---- what is no padding (5) | LINE
# with 3 <= vi and vi < 15, A[vi - 3 => 0 <= vi and vi < 16, A[vi % 12
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: its condition always holds

# with 3 <= vi and vi < 15 => 9 <= vi and vi < 4
decompose_padding("P", i)
# refused PaddingPatternMatchError at block P: block "P" is not a padding that can be decomposed: its condition never holds

# ---- the constant is not stored where a binding is unknown | LINE
# with def main(A: T.Buffer((12,)), P: T.Buffer((16,))):\nfor i in range(16): => def main(A: T.Buffer((8,)), P: T.Buffer((10,))):\n    for i in range(10):\n        x: T.int32 = 9 - i
# with 16, i => 10, x ; 3 <= vi and vi < 15, A[vi - 3 => 1 <= vi and vi < 9, A[vi - 1
decompose_padding("P", i)
# refused OutOfScopeError: would move a use of a name out of its definition

# ==== in other hands

# ---- READER_AFTER_BLOCK_ITS
@T.prim_func
def main(A: T.Buffer((8,)), P: T.Buffer((10,)), C: T.Buffer((10,))):
    for i in range(10):
        with T.block("P"):
            vi = T.axis.spatial(10, i)
            P[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], T.float32(0))
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = P[vi]

# ---- a reader after the block in its loop | READER_AFTER_BLOCK_ITS
decompose_padding("P", i)

# ---- a reader that would find the constant before the value (2) | READER_AFTER_BLOCK_ITS
# with = P[vi => = P[9 - vi
decompose_padding("P", i)
# refused PaddingReadEarlyError at block C, block P: may read P before
