"""blockize of a list: blocks that follow one another become the body of one block."""

# ---- two blocks in a loop | TILED_STAGES
blockize([B, C])
# becomes
for i_0 in range(4):
    with T.block("outer_B_C_"):
        vi_o = T.axis.spatial(4, i_0)
        for i_1 in range(8):
            with T.block("B"):
                vi_i = T.axis.spatial(8, i_1)
                B[vi_o * 8 + vi_i] = A[vi_o * 8 + vi_i] * T.float32(2.0)
        for i_1 in range(8):
            with T.block("C"):
                vi_i = T.axis.spatial(8, i_1)
                C[vi_o * 8 + vi_i] = B[vi_o * 8 + vi_i] + A[vi_o * 8 + vi_i + 1]

# ---- trace | TILED_STAGES
blockize([B, C], preserve_unit_iters=False)
# recorded
b2 = sch.blockize(target=[b0, b1], preserve_unit_iters=False)
["Blockize", [["b0", "b1"]], [0], ["b2"]]

# ==== refused

# ---- refused: no block, root block | TILES
blockize([])
# refused NoBlockError: the list is empty

x_root = get_block("root")
blockize([x_root])
# refused RootBlockError at block root: root block

# ---- THREE
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]

# ---- refused: blocks not siblings | THREE
blockize([B, D])
# refused BlocksNotSiblingsError at block B, block D: in one loop or block

blockize([D, C])
# refused BlocksNotSiblingsError at block D, block C: in program order

# ---- refused: blocks not siblings, outer axes mismatch, outer reduction
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B_o"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            with T.block("B"):
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
# apply
blockize([B, C])
# refused BlocksNotSiblingsError at block B, block C: are not the only blocks in two statements that follow one another

@T.prim_func
def main(A: T.Buffer((33,)), B: T.Buffer((32,)), C: T.Buffer((32,))):
    for i_0 in range(4):
        for i_1 in range(8):
            with T.block("B"):
                vi = T.axis.spatial(32, i_0 * 8 + i_1)
                B[vi] = A[vi] * T.float32(2)
        for i_1 in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i_0, i_1])
                C[vi * 8 + vj] = A[vi]
# apply
blockize([B, C])
# refused OuterAxesMismatchError at block B, block C: block "B" would have the outer axes (vi_o = i_0) there, and block "C" (vi_o = i_0, vj_o = 0)

@T.prim_func
def main(A: T.Buffer((6, 4)), B: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        for k in range(4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]
# apply
blockize([B, C])
# refused OuterReductionError at block B: block "B" has a reduction with an init

# ---- refused: blocks not siblings (2) | TILED_STAGES
blockize([B, B])
# refused BlocksNotSiblingsError at block B, block B: are not the only blocks in two statements that follow one another
