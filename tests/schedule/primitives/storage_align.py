"""storage_align: strides of a buffer are aligned, as annotations request."""

# ---- the request is an annotation | NARROW_STAGES
storage_align("B", 0, 0, 16, 3)
# lines
T.block_attr({"buffer_dim_align": [[0, 0, 16, 3]]})

storage_align("B", 0, -1, 16, -1)
# lines
T.block_attr({"buffer_dim_align": [[0, 1, 16, -1]]})

# ---- requests for other axes are appended, one for the same axis is replaced | NARROW_STAGES
storage_align("B", 0, 1, 8, 0)
storage_align("B", 0, -2, 16, 3)
storage_align("B", 0, -1, 4, 1)
# lines
T.block_attr({"buffer_dim_align": [[0, 1, 4, 1], [0, 0, 16, 3]]})

# ---- trace | NARROW_STAGES
storage_align("B", 0, -2, 16, 3)
# recorded
sch.storage_align(block=b0, buffer_index=0, axis=-2, factor=16, offset=3)
["StorageAlign", ["b0"], [0, -2, 16, 3], []]

# ---- a buffer, an axis or a factor that is not there | NARROW_STAGES
storage_align("B", 1, 0, 16, 0)
# refused BufferIndexOutOfRangeError at block B: is 1, but

storage_align("B", -1, 0, 16, 0)
# refused BufferIndexOutOfRangeError at block B: has 1 write region(s)

storage_align("B", 0, 0, 0, 0)
# refused StorageAlignInvalidFactorError at block B: positive, but it is 0

storage_align("B", 0, 0, -4, 0)
# refused StorageAlignInvalidFactorError at block B: but it is -4

storage_align("B", 0, 2, 16, 0)
# refused StorageAlignAxisOutOfRangeError at block B: axis 2 is out of range: B has 2 dimension(s)

storage_align("B", 0, -3, 16, 0)
# refused StorageAlignAxisOutOfRangeError at block B: axis -3 is out

storage_align("C", 0, 0, 16, 0)
# refused NonAllocatedBufferError at block C: C is not allocated by a block

# ---- a view | VIEW
storage_align("inner", 0, 0, 16, 0)
# refused NonAllocatedBufferError at block inner: row is not allocated

# ---- an annotation of another form | NARROW_STAGES
# with B[vi, vj] = A => T.block_attr({"buffer_dim_align": 1})\nB[vi, vj] = A
storage_align("B", 0, 0, 16, 0)
# refused StorageAlignInvalidAnnotationError at block B: must be a list of [buffer, axis, factor,

# with B[vi, vj] = A => T.block_attr({"buffer_dim_align": "x"})\nB[vi, vj] = A
storage_align("B", 0, 0, 16, 0)
# refused StorageAlignInvalidAnnotationError at block B: must be a list of [buffer, axis, factor,

# with B[vi, vj] = A => T.block_attr({"buffer_dim_align": [[0, 0, 16]]})\nB[vi, vj] = A
storage_align("B", 0, 0, 16, 0)
# refused StorageAlignInvalidAnnotationError at block B: must be a list of [buffer, axis, factor,

# with B[vi, vj] = A => T.block_attr({"buffer_dim_align": [[0, 0, 16, "x"]]})\nB[vi, vj] = A
storage_align("B", 0, 0, 16, 0)
# refused StorageAlignInvalidAnnotationError at block B: must be a list of [buffer, axis, factor,

# with B[vi, vj] = A => T.block_attr({"buffer_dim_align": [[0, 0, 16, 0], 2]})\nB[vi, vj] = A
storage_align("B", 0, 0, 16, 0)
# refused StorageAlignInvalidAnnotationError at block B: must be a list of [buffer, axis, factor,
