"""Hints on blocks and loops: annotate, unannotate."""

# ==== annotate

# ---- PROGRAM
A = placeholder((8,))
B = compute((8,), lambda i: A[i] + 1)

# ---- numbers are int32 and float32 | PROGRAM
annotate(B, "hint", [1, 0.5])
# lines
T.block_attr({"hint": [1, T.float32(0.5)]})

# ---- sampled numbers are stored as constants | PROGRAM
v = sample_categorical([16, 64], [0.5, 0.5], decision=1)
annotate(B, "hint", v)
annotate(B, "hints", [v * 2, 1])
# becomes
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.block_attr({"hint": 64, "hints": [128, 1]})
        B[vi] = A[vi] + T.float32(1.0)

# ---- MARKED
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in T.serial(8, annotations={"pragma": 3}):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.block_attr({"hint": "fast"})
            B[vi] = A[vi] + T.float32(1)

# ---- an annotation that is there is kept but the call recorded | MARKED
annotate(B, "hint", "slow")
# lines

# ---- other annotations are kept | MARKED
annotate(B, "more", 1)
# lines
T.block_attr({"hint": "fast", "more": 1})

# ==== unannotate

# ---- unannotate | MARKED
unannotate(B, "hint")
unannotate(i, "pragma")
# lines
for i in range(8):

# ---- unannotate one of several | MARKED
# with T.serial(8, annotations={"pragma": 3} => range(8 ; hint": "fast" => a": 1, "b": 2, "c": 3
unannotate(B, "b")
# lines
T.block_attr({"a": 1, "c": 3})

# ---- unannotate makes place for another value | MARKED
unannotate(B, "hint")
annotate(B, "hint", "slow")
# lines
T.block_attr({"hint": "slow"})

# ==== trace

# ---- trace | PROGRAM
annotate(B, "hint", "fast")
annotate(i, "pragma", [1, "x", 0.5])
annotate(B, "table", {"a": "y", "b": 2})
unannotate(i, "pragma")
# recorded
sch.annotate(block_or_loop=b0, ann_key="hint", ann_val="fast")
["Annotate", ["b0", "\"fast\""], ["hint"], []]
sch.annotate(block_or_loop=l2, ann_key="pragma", ann_val=[1, "x", 0.5])
["Annotate", ["l2", [1, "\"x\"", 0.5]], ["pragma"], []]
sch.annotate(block_or_loop=b3, ann_key="table", ann_val={"a": "y", "b": 2})
["Annotate", ["b3", {"a": "\"y\"", "b": 2}], ["table"], []]
sch.unannotate(block_or_loop=l5, ann_key="pragma")
["Unannotate", ["l5"], ["pragma"], []]

# ==== refused

# ---- an annotation that is not there | MARKED
unannotate(B, "pragma")
# refused AnnotationKeyError at block B: block "B" has no annotation 'pragma' [AnnotationKeyError]

unannotate(i, "hint")
# refused AnnotationKeyError at loop i: loop `i` has no annotation 'hint'

# ---- an annotation that is not there (2) | PROGRAM
x_root = get_block("root")
unannotate(x_root, "hint")
# refused AnnotationKeyError at block root: its keys are []
