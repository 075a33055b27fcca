"""rfactor: refusals; for the rest see `test_rfactor.py`."""

# ---- ROW_SUM
A = placeholder((5, 12))
k = reduce_axis((0, 12))
C = compute((5,), lambda i: sum(A[i, k], k))

# ---- the inner part of a sum | ROW_SUM
split(k, [3, 4])
rfactor(k_1, 1)
# becomes
C_rf = T.alloc_buffer((5, 4))
for i, k_0, k_1 in T.grid(5, 3, 4):
    with T.block("C_rf"):
        vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
        with T.init():
            C_rf[vi, vk_1] = T.float32(0.0)
        C_rf[vi, vk_1] = C_rf[vi, vk_1] + A[vi, vk_0 * 4 + vk_1]
for i, k_1 in T.grid(5, 4):
    with T.block("C"):
        vk_1, vi = T.axis.remap("RS", [k_1, i])
        ...
        C[vi] = C[vi] + C_rf[vi, vk_1]

# ---- a loop that does not start at 0 | ROW_SUM
# with for i, k in T.grid(5, 12): => for i in range(5):\n  for k in range(2, 12):
rfactor(k, 0)
# refused LoopPropertyError at block C, loop k: block "C" cannot be factored over loop `k`: loop k does not start at 0
