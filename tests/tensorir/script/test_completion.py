"""What a script leaves out is filled in: the root block, and the regions that blocks touch."""

from __future__ import annotations

from tensorir import assert_structural_equal, parse


def test_blocks_without_axes_beside_others_are_no_root():
    func = parse("""\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer(())):
    with T.block("A"):
        A[0] = B[1]
    with T.block("C"):
        C[()] = B[3]
""")
    written_out = parse("""\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer(())):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("A"):
            T.reads(B[1])
            T.writes(A[0])
            A[0] = B[1]
        with T.block("C"):
            T.reads(B[3])
            T.writes(C[()])
            C[()] = B[3]
""")
    assert_structural_equal(func, written_out)


def test_the_only_block_is_the_root_and_stays_empty():
    func = parse("""\
@T.prim_func
def main(A: T.Buffer((8,))):
    with T.block("everything"):
        T.writes(A[0:8])
        for i in range(8):
            A[i] = A[i] + T.float32(1)
""")
    block = func.body.block
    assert block.name_hint == "everything"
    assert block.reads == ()
    assert [r.buffer.name for r in block.writes] == ["A"]


def test_allocations_of_the_function_make_another_root():
    func = parse("""\
@T.prim_func
def main(A: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    with T.block("one"):
        B[0] = A[0]
""")
    (inner,) = [func.body.block.body.block]
    assert inner.name_hint == "one"
    assert [r.buffer.name for r in (*inner.reads, *inner.writes)] == ["A", "B"]
