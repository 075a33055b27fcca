"""Inits that read what the block accumulates into: what was there before is a part of the result."""

# ---- SCALED
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = C[vi] + A[vi, vk]

# ---- a copy is filled first | SCALED
# with {init} => C[vi] * T.float32(0.5)
cache_write("C", 0, "local")
# blocks
alloc C_local(4) local
ax0 4: C_local(ax0)
i 4, k 6: C(i, +k)
ax0 4: C_local(ax0)

# ---- the init that is split off declares what it reads | SCALED
# with {init} => A[vi, 0]
decompose_reduction("C", k)
# blocks
i 4: C_init(i)
i 4, k 6: C_update(i, +k)

# ---- what is not declared is not filled | SCALED
# with with T.init(): => T.reads(A[vi, vk])\nwith T.init(): ; {init} => C[vi] * T.float32(0.5)
cache_write("C", 0, "local")
# refused UnsafeStageError at block C: without declaring that

# ---- an init that reads another element does not move | SCALED
# with {init} => C[3 - vi]
decompose_reduction("C", i)
# refused DependentAxisError at block C: touch the same element

# ---- a reduction that continues is not repeated
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4, 6))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = A[vi, vk]
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = C[vi] * T.float32(0.5)
            C[vi] = C[vi] + B[vi, vk]
# apply
i, _ = get_loops("B")
reverse_compute_at("C", i)
# refused RepeatedReductionError at block C: starts from the earlier contents of C
