"""Reductions that run only for the terms that a periodic condition leaves in."""

# ---- TRANSPOSED
A = placeholder((10,))
W = placeholder((4,))
r = reduce_axis((0, 4))
C = compute((16,), lambda h: sum(T.if_then_else((h + r) % 2 == 0, A[(h + r) // 2], 0) * W[3 - r], r))

# ---- takes every other step | TRANSPOSED
skip_neutral_terms(r)
# becomes
for h, r in T.grid(16, 2):
    with T.block("C"):
        ...
        C[vh] = C[vh] + A[vh + vr - vh // 2] * W[3 - vr * 2 - vh % 2]

# ---- a period longer than the loop leaves one step | TRANSPOSED
# with 2 == 0, A[(vh + vr) // 2 => 5 == 0, A[(vh + vr) // 5
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 1):
C[vh] = C[vh] + T.if_then_else(vh * 4 % 5 < 4, A[vh - vh * 4 // 5] * W[3 - vh * 4 % 5], T.float32(0.0))

# ---- any scale without a common divisor | TRANSPOSED
# with + vr) % 2 == 0 => * 2 + vr * (1) + 40) % 3 == 2
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 2):
C[vh] = C[vh] + T.if_then_else(vr * 3 + (vh + 1) % 3 < 4, A[vh + vr + (vr + (vh + 1) // 3 + 1) // 2 - (vh + 1) // 3 * 2] * W[3 - vr * 3 - (vh + 1) % 3], T.float32(0.0))

# ---- BOTH
@T.prim_func
def main(A: T.Buffer((6, 6)), W: T.Buffer((4, 4), "int8"), C: T.Buffer((8, 8))):
    for h, w, r, s in T.grid(8, 8, 4, 4):
        with T.block("C"):
            vh, vw, vr, vs = T.axis.remap("SSRR", [h, w, r, s])
            with T.init():
                C[vh, vw] = T.float32(0)
            C[vh, vw] = T.Cast("float32", W[vr, vs]) * T.Select((vh + vr) % 2 == 0 and (vw + vs) % 2 == 1, A[(vh + vr) // 2, (vw + vs) // 2], T.float32(0)) + C[vh, vw]

# ---- several axes and other forms of the product | BOTH
skip_neutral_terms(s)
skip_neutral_terms(r)
# lines
for h, w, r, s in T.grid(8, 8, 2, 2):
C[vh, vw] = C[vh, vw] + T.Cast("float32", W[vr * 2 + vh % 2, vs * 2 + (vw + 1) % 2]) * A[vh + vr - vh // 2, vw + vs - (vw + 1) // 2]

# ---- conditions that two reduction axes share | BOTH
# with vw + vs) % 2 == 1 => vh + vr + vs) % 3 == 0
skip_neutral_terms(r)
skip_neutral_terms(s)
# lines
for h, w, r, s in T.grid(8, 8, 2, 2):
C[vh, vw] = C[vh, vw] + T.if_then_else(vs * 3 + (vh + vr - vh // 2) % 3 < 4, T.Cast("float32", W[vr * 2 + vh % 2, vs * 3 + (vh + vr - vh // 2) % 3]) * A[vh + vr - vh // 2, vs + (vw + vs + vh + vr + (vh + vr - vh // 2) // 3 - vh // 2) // 2 - (vh + vr - vh // 2) // 3 * 2], T.float32(0.0))

# ---- zeros are skipped whatever they are multiplied with | TRANSPOSED
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 2):
C[vh] = C[vh] + A[vh + vr - vh // 2] * W[3 - vr * 2 - vh % 2]

# ---- a term under the whole condition says the same for infinities | TRANSPOSED
# with ], T.float32(0)) * W[3 - vr] => ] * W[3 - vr], T.float32(0))
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 2):
C[vh] = C[vh] + A[vh + vr - vh // 2] * W[3 - vr * 2 - vh % 2]

# ---- conditions without a period are refused | TRANSPOSED
# with vr) % 2 => vr * 2) % 4
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr

# with vr) % => vr // 2) %
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr

# with 0, => 0 or vh < 3,
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr

# with (vh + vr) % 2 == 0 => vh + vr < 9
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr

# with 0)) => 1))
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr

# with T.float32(0)) * W[3 - vr] => W[vr])
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr

# ---- loops of other axes are refused | TRANSPOSED
skip_neutral_terms(h)
# refused NotTrivialBindingError at loop h, block C: loop `h` must have a constant extent and drive one reduction axis of block "C" and no other axis

split(r, [2, None])
skip_neutral_terms(r_0)
# refused NotTrivialBindingError at loop r_0, block C: before it is split

# ---- an update without init is refused | TRANSPOSED
decompose_reduction("C", r)
skip_neutral_terms(r)
# refused NotReductionBlockError at block C_update: before decompose_reduction

# ---- VIEWED
@T.prim_func
def main(A: T.Buffer((10,)), W: T.Buffer((4,)), C: T.Buffer((16,))):
    for h, r in T.grid(16, 4):
        with T.block("C"):
            vh, vr = T.axis.remap("SR", [h, r])
            V = T.match_buffer(W[3 - vr : 4 - vr], (1,), offset_factor=1)
            with T.init():
                C[vh] = T.float32(0)
            C[vh] = C[vh] + T.if_then_else((vh + vr) % 2 == 0, A[(vh + vr) // 2], T.float32(0)) * V[0]

# ---- views move along | VIEWED
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 2):
V = T.match_buffer(W[3 - vr * 2 - vh % 2], (1,), offset_factor=1)
C[vh] = C[vh] + A[vh + vr - vh // 2] * V[0]

# ---- views of steps beyond the extent are refused | VIEWED
# with 4) => 3)
skip_neutral_terms(r)
# refused MatchBufferError at block C: extent 3

# ---- GUARDED
A = placeholder((9,))
S = placeholder((6,), "int32")
W = placeholder((4,))
r = reduce_axis((0, 4))
C = compute((16,), lambda h: sum(T.if_then_else(all(h < 6, (S[h] + r) % 2 == 0), A[h + r], 0) * W[r], r))

# ---- what is tested before the condition guards its solution | GUARDED
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 2):
C[vh] = C[vh] + T.if_then_else(vh < 6, A[vh + vr * 2 + S[vh] % 2], T.float32(0.0)) * W[vr * 2 + T.if_then_else(vh < 6, S[vh] % 2, 0)]

# ---- loads and divisions stay guarded | GUARDED
# with < 6 and (S[vh] + vr) % 2 == 0 => > 0 and (30 // vh + vr) % 2 == 0 and vh < 6
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 2):
C[vh] = C[vh] + T.if_then_else(1 <= vh and vh < 6, A[vh + vr * 2 + 30 // vh % 2], T.float32(0.0)) * W[vr * 2 + T.if_then_else(1 <= vh, 30 // vh % 2, 0)]

# with (S[vh] + vr) % 2 == 0 => vh > 0 and (vr - S[vh - 1] // vh) % 4 == 1
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 1):
C[vh] = C[vh] + T.if_then_else(vh < 6 and 1 <= vh, A[vh - S[vh - 1] // vh * 3 - (S[vh - 1] // vh * -3 - 3) // 4 * 4 - 3], T.float32(0.0)) * W[T.if_then_else(vh < 6 and 1 <= vh, S[vh - 1] // vh * -3 - (S[vh - 1] // vh * -3 - 3) // 4 * 4 - 3, 0)]

# ---- a guard around the choice guards the solution | GUARDED
# with 6 and (S[vh] + vr) % 2 == 0, A[vh + vr] => 6, T.if_then_else((S[vh] + vr) % 2 == 0, A[vh + vr], T.float32(0))
skip_neutral_terms(r)
# lines
for h, r in T.grid(16, 2):
C[vh] = C[vh] + T.if_then_else(vh < 6, A[vh + vr * 2 + S[vh] % 2], T.float32(0.0)) * W[vr * 2 + T.if_then_else(vh < 6, S[vh] % 2, 0)]

# ---- a guard that depends on the axis cannot guard the solution | GUARDED
# with < => + vr <
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr

# ---- sums that wrap keep their remainders by powers of two only | GUARDED
# with 2 => 3
skip_neutral_terms(r)
# refused NoPeriodError at block C: axis vr
