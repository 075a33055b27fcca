"""vectorize and parallel: loops over blocks that update elements in place."""

# ---- SCALE
@T.prim_func
def main(X: T.Buffer((32,))):
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = X[vi] * T.float32(2)

# ---- SUBSTITUTE
@T.prim_func
def main(L: T.Buffer((6, 6)), B: T.Buffer((6, 8))):
    for i, k, j in T.grid(6, 6, 8):
        with T.block("B"):
            vi = T.axis.scan(6, i)
            vk = T.axis.scan(6, k)
            vj = T.axis.spatial(8, j)
            T.where(k < i)
            B[vi, vj] = B[vi, vj] - L[vi, vk] * B[vk, vj]

# ==== each iteration has its own elements

# ---- the element that is written is the only one that is read | SCALE
vectorize(i)
# lines
for i in T.vectorized(8):

split(i, [None, 3])
parallel(i_0)
vectorize(i_1)
# lines
for i_0 in T.parallel(3):
for i_1 in T.vectorized(3):
vi = T.axis.spatial(8, i_0 * 3 + i_1)
T.where(i_0 * 3 + i_1 < 8)

# ---- several buffers, all values before the first store
@T.prim_func
def main(X: T.Buffer((8,)), Y: T.Buffer((8,))):
    for i in range(8):
        with T.block("swap"):
            vi = T.axis.spatial(8, i)
            old: T.float32 = X[vi]
            X[vi] = Y[vi]
            Y[vi] = old
# apply
vectorize(i)
# lines
for i in T.vectorized(8):

# ---- what is read lies outside of what the block writes | SCALE
# with X[vi] * => X[31 - vi] *
vectorize(i)
# lines
for i in T.vectorized(8):

# ---- rows depend on one another, columns do not | SUBSTITUTE
vectorize(j)
# lines
for i, k in T.grid(6, 6):
for j in T.vectorized(8):

# ---- a decomposed reduction
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
# apply
decompose_reduction("C", i)
parallel(i)
# lines
for i_init in range(8):
with T.block("C_init"):
vi = T.axis.spatial(8, i_init)
for i in T.parallel(8):
for k in range(5):
with T.block("C_update"):

# ==== the order of iterations matters

# ---- another iteration writes what is read | SCALE
# with X[vi] * => X[vi + 1] *
vectorize(i)
# refused NotCompactDataFlowError at loop i, block X: nor an update in place of which each iteration has its own elements

# with X[vi] * => X[7 - vi] *
parallel(i)
# refused NotCompactDataFlowError at loop i, block X: nor an update in place of which each iteration has its own elements

# ---- several iterations update the same element | SCALE
# with (8, i) => (8, i // 2)
vectorize(i)
# refused NotCompactDataFlowError at loop i, block X: nor an update in place of which each iteration has its own elements

# with (8, i) => (8, i % 4)
parallel(i)
# refused NotCompactDataFlowError at loop i, block X: nor an update in place of which each iteration has its own elements

# with X[vi] = X[vi] => X[vi // 2] = X[vi // 2]
parallel(i)
# refused NotCompactDataFlowError at loop i, block X: nor an update in place of which each iteration has its own elements

# ---- another block uses the elements
@T.prim_func
def main(X: T.Buffer((32,)), Y: T.Buffer((8,))):
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = X[vi] * T.float32(2)
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = X[vi + 1]
# apply
parallel(i)
# refused NotCompactDataFlowError at loop i, block X: nor an update in place of which each iteration has its own elements

# ---- rows depend on one another | SUBSTITUTE
parallel(k)
# refused NotCompactDataFlowError at loop k, block B: nor an update in place of which each iteration has its own elements
