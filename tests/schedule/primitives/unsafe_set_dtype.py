"""Storing a buffer in another data type."""

# ---- stores and loads convert | NARROW_STAGES
unsafe_set_dtype("B", 0, "float16")
# becomes, not interpreted
B = T.alloc_buffer((8, 4), "float16")
for i, j in T.grid(8, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = T.Cast("float16", A[vi, vj] * T.float32(2.0))
for i, j in T.grid(8, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1.0)

# ---- a wider type computes the same | NARROW_STAGES
unsafe_set_dtype("B", 0, "float64")
# becomes
B = T.alloc_buffer((8, 4), "float64")
for i, j in T.grid(8, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = T.Cast("float64", A[vi, vj] * T.float32(2.0))
for i, j in T.grid(8, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1.0)

# ---- the type that it has changes nothing | NARROW_STAGES
unsafe_set_dtype("B", 0, "float32")
# lines

# ---- trace | NARROW_STAGES
unsafe_set_dtype("B", 0, "float64")
# recorded
sch.unsafe_set_dtype(block=b0, buffer_index=0, dtype="float64")
["UnsafeSetDType", ["b0"], [0, "float64"], []]

# ==== refused

# ---- refused: buffer index out of range, non allocated buffer | NARROW_STAGES
unsafe_set_dtype("B", 1, "float16")
# refused BufferIndexOutOfRangeError at block B: is 1, but

unsafe_set_dtype("B", -1, "float16")
# refused BufferIndexOutOfRangeError at block B: has 1 write region(s)

unsafe_set_dtype("C", 0, "float16")
# refused NonAllocatedBufferError at block C: C is not allocated by a block

# ---- refused: non allocated buffer | VIEW
unsafe_set_dtype("inner", 0, "float16")
# refused NonAllocatedBufferError at block inner: row is not allocated

# ---- text that names no type | NARROW_STAGES
# lines

unsafe_set_dtype("B", 0, "floot16")
# refused ArgumentError: `dtype` names no type: unknown type 'floot16'; a dtype looks like 'float32', 'int8', 'bool'

# ---- the buffer is given by number | NARROW_STAGES
# lines

unsafe_set_dtype("B", "B", "float16")
# refused ArgumentError: `buffer_index` takes int, got str: 'B'

# ---- WIDENED
@T.prim_func
def main(A: T.Buffer((8, 4), "int8"), C: T.Buffer((8, 4), "int32")):
    B = T.alloc_buffer((8, 4), "{b}")
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {stored}
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {loaded}

# ---- what a wider type holds is converted once | WIDENED
# with {b} => int8 ; {stored} => A[vi, vj] ; {loaded} => T.Cast("int32", B[vi, vj])
unsafe_set_dtype("B", 0, "int16")
# lines
B = T.alloc_buffer((8, 4), "int16")
B[vi, vj] = T.Cast("int16", A[vi, vj])

# with {b} => int8 ; {stored} => A[vi, vj] ; {loaded} => T.Cast("int32", B[vi, vj])
unsafe_set_dtype("B", 0, "int32")
# lines
B = T.alloc_buffer((8, 4), "int32")
B[vi, vj] = T.Cast("int32", A[vi, vj])
C[vi, vj] = B[vi, vj]

# with {b} => int8 ; {stored} => A[vi, vj] ; {loaded} => T.Cast("int32", B[vi, vj])
unsafe_set_dtype("B", 0, "uint8")
# lines
B = T.alloc_buffer((8, 4), "uint8")
B[vi, vj] = T.Cast("uint8", A[vi, vj])
C[vi, vj] = T.Cast("int32", T.Cast("int8", B[vi, vj]))

# with {b} => int8 ; {stored} => A[vi, vj] ; {loaded} => T.Cast("int32", B[vi, vj])
unsafe_set_dtype("B", 0, "float32")
# lines
B = T.alloc_buffer((8, 4))
B[vi, vj] = T.Cast("float32", A[vi, vj])
C[vi, vj] = T.Cast("int32", T.Cast("int8", B[vi, vj]))

# ---- arithmetic in the narrow type still wraps | WIDENED
# with {b} => int8 ; {stored} => A[vi, vj] * T.int8(2)
# with {loaded} => T.Cast("int32", B[vi, vj] + T.int8(1))
unsafe_set_dtype("B", 0, "int16")
# lines
B = T.alloc_buffer((8, 4), "int16")
B[vi, vj] = T.Cast("int16", A[vi, vj] * T.int8(2))
C[vi, vj] = T.Cast("int32", T.Cast("int8", B[vi, vj]) + T.int8(1))
