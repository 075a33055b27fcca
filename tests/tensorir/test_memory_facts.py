"""Accesses of blocks, patterns of operators, parameters that are written."""

from __future__ import annotations

import pytest
import strategies
from hypothesis import given
from strategies import CONDITIONS, DOMAINS, INDEX_EXPRESSIONS, evaluate, points

from tensorir import parse, te, topi
from tensorir.errors import DiagnosticError
from tensorir.function import IRModule
from tensorir.memory.access import get_block_read_write_region
from tensorir.memory.op_pattern import OpPattern, op_pattern
from tensorir.memory.reshaping import is_reshape
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, BufferStore, For, ForKind, IfThenElse
from tensorir.rewriting.visit import walk

# ----------------------------------------------- Which regions a block touches, found from its body

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((16,), "int32"), K: T.Buffer((1,), "int32"), n: T.int32):
    with T.block("b"):
        for i, j in T.grid(16, 4):
"""


def written(body):
    """Return the regions that a body of the loops in `PROGRAM` writes."""
    return touched(PROGRAM + "".join(f"            {line}\n" for line in body.splitlines()))[1]


def touched(program):
    """Return the regions that the block b reads, and those that it writes."""
    func = parse(program)
    (block,) = (b for b in walk(func.body) if isinstance(b, Block) and b.name_hint == "b")
    buffers = {b.data: b for b in func.buffer_map.values()}
    return [[str(r) for r in side] for side in get_block_read_write_region(block, buffers)]


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        ("A[vi]", []),
        ("A[vi] + A[vi + 1]", ["A[vi:vi + 2]"]),
        ("A[vk]", ["A[vk]"]),
    ],
)
def test_what_the_init_stores_is_not_read_but_the_rest_is(value, reads):
    program = f"""\
@T.prim_func
def main(A: T.Buffer((16,), "int32")):
    for i, k in T.grid(16, 16):
        with T.block("b"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                A[vi] = 0
            A[vi] = {value}
"""
    assert touched(program) == [reads, ["A[vi]"]]


@pytest.mark.parametrize(
    ("condition", "region"),
    [
        ("i < 5", "A[0:5]"),
        ("i < n", "A[0:T.min(16, n)]"),
        ("i * 4 + 3 < n", "A[0:T.min(16, n // 4)]"),
        ("i == n", "A[n]"),
        ("i == j", "A[0:4]"),
        ("i < j", "A[0:3]"),
        ("T.likely(i < 5 and 2 <= i)", "A[2:5]"),
        ("not (5 <= i or n < 4)", "A[0:5]"),
        ("j < i // 4", "A[0:16]"),
        ("i < 5 or j < 2", "A[0:16]"),
    ],
)
def test_a_condition_narrows_the_loops(condition, region):
    assert written(f"if {condition}:\n    A[i] = 1") == [region]


def test_the_other_branch_is_narrowed_by_the_negation():
    assert written("if i < 5:\n    K[0] = 1\nelse:\n    A[i] = 1") == ["K[0]", "A[5:16]"]


def test_a_condition_on_memory_says_nothing_of_the_region():
    """`K[0]` is another value by the time the last elements are written."""
    assert written("if i < K[0]:\n    K[0] = 9\n    A[i] = 1") == ["K[0]", "A[0:16]"]


def test_the_range_of_a_loop_may_depend_on_another():
    assert written("for k in range(i, 16):\n    A[k] = 1") == ["A[0:16]"]
    assert written("for k in range(j, i):\n    A[k] = 1") == ["A[0:15]"]


@given(INDEX_EXPRESSIONS, CONDITIONS, DOMAINS)
def test_every_element_is_inside(index, condition, domain):
    """X and Y are loops of the block, Z comes from outside."""
    buffer = decl_buffer((1000,), "int32", "A")
    body = IfThenElse(condition, BufferStore(buffer, const(1), (index,)))
    for var in (strategies.X, strategies.Y):
        low, extent = const(domain[var].start), const(len(domain[var]))
        body = For(var, low, extent, ForKind.SERIAL, body)
    block = Block((), (), (), "b", body)
    _, ((dim,),) = (
        [r.region for r in side]
        for side in get_block_read_write_region(block, {buffer.data: buffer})
    )
    for point in points(domain):
        if evaluate(condition, point):
            offset = evaluate(index, point) - evaluate(dim.min, point)
            unlimited = str(dim) == "T.Range(0, 1000)"
            assert unlimited or 0 <= offset < evaluate(dim.extent, point)


# --------------------------------- The kinds of tensor functions, found by what they read and write

X = te.placeholder((4, 8), name="X")
ROW = te.placeholder((8,), name="R")
PLACES = te.placeholder((5,), "int64", name="I")
IMAGE = te.placeholder((1, 3, 8, 8), name="D")
FILTER = te.placeholder((6, 3, 3, 3), name="W")
N = te.var("n", "int64")


def kernel(*tensors):
    return te.create_prim_func(list(tensors), "int64")


def reduced(combine, of=X):
    k = te.reduce_axis((0, of.shape[1]), "k")
    return te.compute(of.shape[:1], lambda i: combine(of[i, k], axis=k))


def product(a, b, dtype="float32"):
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute(
        (a.shape[0], b.shape[1]),
        lambda i, j: te.sum(a[i, k].astype(dtype) * b[k, j].astype(dtype), axis=k),
    )


WEIGHT = te.placeholder((8, 16), name="W")
SUM = reduced(te.sum)
SYMBOLIC = te.placeholder((N, 8), name="S")
SCALAR = te.placeholder((), name="Z")
BYTES = te.placeholder((4, 8), "int8", name="B"), te.placeholder((8, 2), "int8", name="C")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (kernel(X, topi.exp(X)), OpPattern.ELEMENTWISE),
        (kernel(X, ROW, topi.add(X, ROW)), OpPattern.ELEMENTWISE),
        (kernel(SYMBOLIC, topi.exp(SYMBOLIC)), OpPattern.ELEMENTWISE),
        (kernel(SCALAR, topi.exp(SCALAR)), OpPattern.ELEMENTWISE),
        (kernel(te.compute((4,), lambda i: te.const(1.0))), OpPattern.ELEMENTWISE),
        (kernel(ROW, te.compute((4, 8), lambda i, j: ROW[j])), OpPattern.BROADCAST),
        (kernel(X, te.compute((8, 4), lambda i, j: X[j, i])), OpPattern.INJECTIVE),
        (kernel(X, te.compute((4, 3), lambda i, j: X[i, j * 2 + 1])), OpPattern.INJECTIVE),
        (kernel(X, PLACES, te.compute((5, 8), lambda i, j: X[PLACES[i], j])), OpPattern.INJECTIVE),
        (kernel(X, SUM), OpPattern.REDUCTION),
        (kernel(X, te.compute((4,), lambda i: SUM[i] / 8.0)), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(X, WEIGHT, product(X, WEIGHT)), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(*BYTES, product(*BYTES, "int32")), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(X, topi.nn.softmax(X)), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (kernel(IMAGE, topi.nn.max_pool2d(IMAGE, (2, 2))), OpPattern.OUT_ELEMENTWISE_FUSABLE),
        (
            kernel(IMAGE, FILTER, topi.nn.conv2d(IMAGE, FILTER, padding=1)),
            OpPattern.OUT_ELEMENTWISE_FUSABLE,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, OpPattern) else "",
)
def test_kinds(function, kind):
    assert op_pattern(function) is kind


def function(body):
    buffers = 'A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")'
    return parse(f"@T.prim_func\ndef f({buffers}):\n{body}")


COPY = """
    for i in {loop}:
        with T.block("b"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]
"""


@pytest.mark.parametrize(
    "func",
    [
        function(COPY.format(loop="T.vectorized(8)")),
        function(COPY.format(loop="T.parallel(8)")),
        function('    T.func_attr({"tir.is_scheduled": True})' + COPY.format(loop="range(8)")),
        function("    for i in range(8):\n        C[i] = A[i]"),
        function('    T.evaluate(T.call_packed("copy", A, C))'),
    ],
    ids=["vectorized", "parallel", "scheduled", "no block", "library"],
)
def test_what_somebody_scheduled_or_nobody_knows_is_opaque(func):
    assert op_pattern(func) is OpPattern.OPAQUE


def moved(shape, target, place):
    source = te.placeholder(shape, name="A")
    return kernel(source, te.compute(target, lambda *i: source[place(*i)]))


def test_reshapes_are_proved_by_their_indices():
    assert is_reshape(moved((2, 3, 4), (6, 4), lambda i, j: (i // 3, i % 3, j)))
    assert is_reshape(moved((6, 4), (2, 3, 4), lambda i, j, k: (i * 3 + j, k)))
    assert is_reshape(moved((2, 1, 4), (1, 2, 4), lambda i, j, k: (j, i, k)))
    assert is_reshape(moved((N, 12, 64), (N, 768), lambda i, j: (i, j // 64, j % 64)))
    assert is_reshape(moved((1,), (), lambda: (0,)))
    assert not is_reshape(moved((2, 3), (3, 2), lambda i, j: (j, i)))
    assert not is_reshape(moved((4, 4), (2, 4), lambda i, j: (i, j)))
    assert not is_reshape(moved((8,), (8,), lambda i: (7 - i,)))
    assert not is_reshape(kernel(X, topi.exp(X)))


# --------------------------------- Which of its parameters a function writes, and who may pass what


def written_written(text: str) -> list[str]:
    program = parse(text)
    assert isinstance(program, IRModule)
    func = program.prim_func("main")
    return [func.buffer_map[param].name for param in written_parameters(func, program)]


@pytest.mark.parametrize(
    "body",
    [
        "B[0] = A[0]",
        """for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                T.reads(A[v])
                T.writes(B[v])
                view = T.match_buffer(B[v : v + 1], (1,), offset_factor=1)
                view[0] = A[v]""",
        """q: T.handle("float32") = B.data
        view = T.Buffer((4,), data=q)
        view[0] = A[0]""",
        'T.call_packed("f", A.access_ptr("r"), B.access_ptr("w"))',
        "M.callee(B.data)",
    ],
)
def test_parameters_that_are_written(body: str) -> None:
    text = f"""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def callee(C: T.Buffer((4,))):
        C[0] = T.float32(1)
    @T.prim_func
    def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
        {body}
"""
    assert written_written(text) == ["B"]


GRAPH = """
@I.ir_module
class M:
    @T.prim_func
    def count(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                A[v] = A[v] + T.float32(1)
                B[v] = A[v]
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        cls = M
        BODY
        return y
"""


def test_call_tir_of_a_function_that_writes_its_input() -> None:
    call = 'y = R.call_tir(cls.count, (x,), out_sinfo=R.Tensor((4,), "float32"))'
    message = (
        'binding "y" of function "main": "count" writes to its parameter A, which gets argument 0:'
        ".*R.call_tir_inplace with 0 among the inplace_indices"
    )
    with pytest.raises(DiagnosticError, match=message):
        parse(GRAPH.replace("BODY", call))


def test_call_tir_inplace_of_a_function_that_writes_its_input() -> None:
    both = "[R.Tensor((4,), dtype='float32'), R.Tensor((4,), dtype='float32')]"
    call = f"y = R.call_tir_inplace(cls.count, (x,), out_sinfo={both}, inplace_indices=[0, -1])"
    parse(GRAPH.replace("BODY", call))


@pytest.mark.parametrize(
    "body",
    [
        "y = R.const([1, 2, 3, 4], 'float32')\n        _ = cls.count(y, x)",
        "y = x\n        _ = cls.count(R.const([1, 2, 3, 4], 'float32'), x)",
        "t = (x, R.const([1, 2, 3, 4], 'float32'))\n        y = t[1]\n        _ = cls.count(y, x)",
    ],
)
def test_a_call_that_writes_a_constant(body: str) -> None:
    with pytest.raises(DiagnosticError, match='function "main": a call writes to the constant'):
        parse(GRAPH.replace("BODY", body))
