"""vectorize and parallel: loops over several blocks that access the same memory."""

# ---- TWO
@T.prim_func
def main(X: T.Buffer((9,)), Y: T.Buffer((9,)), Z: T.Buffer((9,))):
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = X[vi]
        with T.block("Z"):
            vi = T.axis.spatial(8, i)
            Z[vi] = Y[vi]

# ---- ROWS
@T.prim_func
def main(X: T.Buffer((34, 8)), Z: T.Buffer((32, 8))):
    Y = T.alloc_buffer((34, 8))
    for i in range(8):
        for r, j in T.grid(6, 8):
            with T.block("Y"):
                vr = T.axis.spatial(34, i * 4 + r)
                vj = T.axis.spatial(8, j)
                Y[vr, vj] = X[vr, vj] * T.float32(2)
        for r, j in T.grid(4, 8):
            with T.block("Z"):
                vr = T.axis.spatial(32, i * 4 + r)
                vj = T.axis.spatial(8, j)
                Z[vr, vj] = Y[vr, vj] + Y[vr + 2, vj]

# ==== no data flows between iterations

# ---- each iteration reads what it has written | TWO
parallel(i)
# lines
for i in T.parallel(8):

vectorize(i)
# lines
for i in T.vectorized(8):

# ---- each iteration overwrites what it has read | TWO
# with Y[vi] = X[vi] => Z[vi] = Y[vi] ; Z[vi] = Y[vi] => Y[vi] = X[vi]
parallel(i)
# lines
for i in T.parallel(8):

# ---- iterations compute the same rows twice, each for itself | ROWS
parallel(i)
# lines
for i in T.parallel(8):

# ---- several blocks share elements that one loop divides
@T.prim_func
def main(X: T.Buffer((2, 4)), Y: T.Buffer((2, 4)), Z: T.Buffer((2, 4))):
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(2, i // 4)
            vj = T.axis.spatial(4, i % 4)
            Y[vi, vj] = X[vi, vj]
        with T.block("Z"):
            vi = T.axis.spatial(2, i // 4)
            vj = T.axis.spatial(4, i % 4)
            Z[vi, vj] = Y[vi, vj]
# apply
parallel(i)
# lines
for i in T.parallel(8):

# ==== data flows between iterations

# ---- a later iteration writes what is read | TWO
# with = Y[vi] => = Y[vi + 1]
parallel(i)
# refused DependentIterationsError at loop i, block Z: uses elements of Y that another block below the loop may write in another iteration

# with = Y[vi] => = Y[vi + 1]
vectorize(i)
# refused DependentIterationsError at loop i, block Z: uses elements of Y that another block below the loop may write in another iteration

# ---- all iterations read what the first one writes | TWO
# with = Y[vi] => = Y[0]
parallel(i)
# refused DependentIterationsError at loop i, block Z: uses elements of Y that another block below the loop may write in another iteration

# ---- iterations go through the elements in opposite orders | TWO
# with = Y[vi] => = Y[7 - vi]
vectorize(i)
# refused DependentIterationsError at loop i, block Z: uses elements of Y that another block below the loop may write in another iteration

# ---- rows of an earlier iteration | ROWS
# with T.grid(6, 8) => T.grid(5, 8)
parallel(i)
# refused DependentIterationsError at loop i, block Z: uses elements of Y that another block below the loop may write in another iteration

# ==== threads pass data to one another

# ---- through a buffer that another iteration writes | TWO
# with = Y[vi] => = Y[vi + 1]
bind(i, "threadIdx.x")
# lines
for i in T.thread_binding(8, thread="threadIdx.x"):
