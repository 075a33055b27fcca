"""Blocks that bind values before they store them: pairs of an argmax, sums and squares, plain lets."""

# ---- ARGMAX
@T.prim_func
def main(A: T.Buffer((5, 12)), D: T.Buffer((5,))):
    P = T.alloc_buffer((5, 12))
    I = T.alloc_buffer((5,), "int32")
    V = T.alloc_buffer((5,))
    for i, k in T.grid(5, 12):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, vk] = A[vi, vk] * T.float32(2)
    for i, k in T.grid(5, 12):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(P[vi, vk])
            T.writes(I[vi], V[vi])
            with T.init():
                I[vi] = -1
                V[vi] = T.min_value("float32")
            v_i: T.int32 = T.Select(V[vi] >= P[vi, vk], I[vi], vk)
            v_v: T.float32 = T.Select(V[vi] >= P[vi, vk], V[vi], P[vi, vk])
            I[vi] = v_i
            V[vi] = v_v
    for i in range(5):
        with T.block("D"):
            vi = T.axis.spatial(5, i)
            D[vi] = V[vi] + T.Cast("float32", I[vi])

# ---- stages around them move | ARGMAX
(i,) = get_loops("D")
compute_at("argmax", i)

_, k = get_loops("P")
reverse_compute_at("argmax", k)

_, k = get_loops("argmax")
rfactor(k, 0)

# ---- LAYER_NORM
@T.prim_func
def main(A: T.Buffer((4, 6)), B: T.Buffer((4, 6))):
    S = T.alloc_buffer((4,))
    Q = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("sums"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(S[vi], Q[vi])
            with T.init():
                S[vi] = T.float32(0)
                Q[vi] = T.float32(0)
            v_s: T.float32 = S[vi] + A[vi, vk]
            v_q: T.float32 = Q[vi] + A[vi, vk] * A[vi, vk]
            S[vi] = v_s
            Q[vi] = v_q
    for i, j in T.grid(4, 6):
        with T.block("normal"):
            vi, vj = T.axis.remap("SS", [i, j])
            mean: T.float32 = S[vi] / T.float32(6)
            variance: T.float32 = Q[vi] / T.float32(6) - mean * mean
            B[vi, vj] = (A[vi, vj] - mean) / T.sqrt(variance + T.float32(1))

# ---- stages around them move (2) | LAYER_NORM
i, _ = get_loops("normal")
compute_at("sums", i)

rfactor(k, 1)

# ---- stages around them move (3)
@T.prim_func
def main(A: T.Buffer((5, 6)), D: T.Buffer((5, 6)), E: T.Buffer((5, 6))):
    P = T.alloc_buffer((5, 6))
    Q = T.alloc_buffer((5, 6))
    for i, k in T.grid(5, 6):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            p: T.float32 = A[vi, vk] * T.float32(2)
            P[vi, vk] = p * p
            Q[vi, vk] = p + p
    for i, k in T.grid(5, 6):
        with T.block("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            q: T.float32 = P[vi, vk] * Q[vi, vk]
            D[vi, vk] = q * q
            E[vi, vk] = q + q
# apply
cache_write("D", 1, "global")

# ---- ONE_STORE
@T.prim_func
def main(A: T.Buffer((5, 6)), D: T.Buffer((5, 6))):
    P = T.alloc_buffer((5, 6))
    for i, k in T.grid(5, 6):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            p: T.float32 = A[vi, vk] * T.float32(2)
            P[vi, vk] = p + T.float32(1)
    for i, k in T.grid(5, 6):
        with T.block("D"):
            vi, vk = T.axis.remap("SS", [i, k])
            q: T.float32 = P[vi, 5 - vk]
            D[vi, vk] = q * q

# ---- a producer is inlined with its values written out | ONE_STORE
compute_inline("P")
# becomes
for i, k in T.grid(5, 6):
    with T.block("D"):
        vi, vk = T.axis.remap("SS", [i, k])
        q: T.float32 = A[vi, 5 - vk] * T.float32(2.0) + T.float32(1.0)
        D[vi, vk] = q * q

# ---- a consumer that is inlined keeps its values | ONE_STORE
reverse_compute_inline("D")
# blocks
i 5, k 6: P(i, k)
