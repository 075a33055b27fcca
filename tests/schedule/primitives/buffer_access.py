"""Overriding what a block says that it touches."""

# ---- BEFORE
@T.prim_func
def main(A: T.Buffer((14, 4)), C: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:14, 0:4])
            T.writes(C[vi, vj])
            C[vi, vj] = A[vi * 2, vj] + T.float32(1)

# ---- declares a region by hand | BEFORE
annotate_buffer_access("C", 0, "read", lambda vi, vj: [(vi * 2, vi * 2 + 1), (vj, vj + 1)])
# lines
T.block_attr({"explicit_read_region": [0]})

# ---- annotations of both sides add up | BEFORE
annotate_buffer_access("C", 0, "read", lambda vi, vj: [(vi * 2, vi * 2 + 1), (vj, vj + 1)])
annotate_buffer_access("C", 0, "read", lambda vi, vj: [(0, 14), (vj, vj + 1)])
annotate_buffer_access("C", 0, "write", lambda vi, vj: [(vi, vi + 1), (0, 4)])
# lines
T.reads(A[0:14, vj])
T.writes(C[vi, 0:4])
T.block_attr({"explicit_read_region": [0], "explicit_write_region": [0]})

# ---- ranges of another form | BEFORE
# becomes
...

annotate_buffer_access("C", 0, "read", lambda vi, vj: (vi,))
# refused RegionRankError at block C: the function of 2 axes gives 1 begins and ends, but block "C" has 2 axes and A has 2 dimension(s)

annotate_buffer_access("C", 0, "read", lambda vi, vj: (vi, "vj"))
# refused RegionRankError at block C: the function of 2 axes gives 2 begins and ends, but block "C" has 2 axes and A has 2 dimension(s)

annotate_buffer_access("C", 0, "read", 3)
# refused ArgumentError: `gen_new_ranges` takes a function of the block's axes that gives a list of ranges, got int: 3

# ---- hides accesses from dependencies
A = placeholder((7,))
B = compute((7,), lambda i: A[i])
C = compute((7,), lambda i: B[i] + A[i])
# apply
get_producers("C")
unsafe_hide_buffer_access("C", "read", [0])
get_producers("C")
# lines
T.reads(A[vi])

# ---- refused: buffer index out of range, buf type, invalid index | BEFORE
annotate_buffer_access("C", 3, "read", lambda vi, vj: [(vi * 2, vi * 2 + 1), (vj, vj + 1)])
# refused BufferIndexOutOfRangeError at block C: the argument `buffer_index` is 3, but block "C" has 1 read region(s)

annotate_buffer_access("C", 0, "opaque", lambda vi, vj: [(vi * 2, vi * 2 + 1), (vj, vj + 1)])
# refused BufTypeError at block C: the buffer access is 'opaque', which is neither 'read' nor 'write'

unsafe_hide_buffer_access("C", "opaque", [0])
# refused BufTypeError at block C: the buffer access is 'opaque', which is neither 'read' nor 'write'

unsafe_hide_buffer_access("C", "read", [1])
# refused InvalidIndexError at block C: [1] are not valid indices of the 1 read region(s) of block "C"

unsafe_hide_buffer_access("C", "write", [-1])
# refused InvalidIndexError at block C: [-1] are not valid indices of the 1 write region(s) of block "C"
