"""Struct infos of values, and of the functions that calls name."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorir import Analyzer, IRModule, IRTypeError, IRValueError, Var, parse, relax
from tensorir.nodes.expr import GlobalVar
from tensorir.nodes.ops import const
from tensorir.relax.callee import check_call_tir, is_pure_call, result_of
from tensorir.relax.expr import GraphCall, SeqExpr
from tensorir.relax.relations import Fits, common_base, fits, is_base_of
from tensorir.relax.struct_info import (
    VOID,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import substitute

# ------------------- Struct infos: what they describe, which contain which, what two have in common

SHAPES = [(), (1,), (2,), (1, 1), (1, 2), (2, 1)]
DTYPES = ["float32", "int8"]


# ---------------------------------------------------------------- relations by listing all values
#
# A small world: tensors (their shape and dtype), shapes, scalars, and tuples of two tensors. A
# struct info stands for the values that it describes, so that the relations are those of sets.

TENSORS = frozenset(("tensor", shape, dtype) for shape in SHAPES for dtype in DTYPES)
OF_SHAPE = frozenset(("shape", shape) for shape in SHAPES)
SCALARS = frozenset(("scalar", dtype, n) for dtype in ("int64", "bool") for n in (0, 1))
PAIRS = frozenset(("pair", a, b) for a in TENSORS for b in TENSORS)
WORLD = TENSORS | OF_SHAPE | SCALARS | PAIRS

TENSOR_INFOS = [
    *(TensorStructInfo(shape, dtype) for shape in SHAPES for dtype in (*DTYPES, None)),
    *(TensorStructInfo(None, dtype, ndim) for ndim in (-1, 0, 1, 2) for dtype in (*DTYPES, None)),
]
FEW_TENSORS = [TENSOR_INFOS[k] for k in (0, 4, 9, 18, 21, 29)]
INFOS: list[StructInfo] = [
    ObjectStructInfo(),
    *TENSOR_INFOS,
    *(ShapeStructInfo(shape) for shape in SHAPES),
    *(ShapeStructInfo(ndim=ndim) for ndim in (-1, 0, 1, 2)),
    *(PrimStructInfo(dtype) for dtype in ("int64", "bool")),
    *(TupleStructInfo(pair) for pair in product(FEW_TENSORS, FEW_TENSORS)),
]


def described(info):
    """Return the values of the small world that a struct info describes."""
    if isinstance(info, TensorStructInfo):
        return frozenset(t for t in TENSORS if is_described(info, t[1], t[2]))
    if isinstance(info, ShapeStructInfo):
        return frozenset(s for s in OF_SHAPE if is_described(info, s[1], None))
    if isinstance(info, PrimStructInfo):
        return frozenset(s for s in SCALARS if s[1] == info.dtype)
    if isinstance(info, TupleStructInfo):
        first, second = map(described, info.elements)
        return frozenset(p for p in PAIRS if p[1] in first and p[2] in second)
    return WORLD


def is_described(info, shape, dtype):
    if isinstance(info, TensorStructInfo) and info.dtype not in (None, dtype):
        return False
    known = info.shape if isinstance(info, TensorStructInfo) else info.values
    if known is not None:
        return tuple(n.value for n in known) == shape
    return info.ndim in (-1, len(shape))


VALUES = [(info, described(info)) for info in INFOS]


def test_fits_is_inclusion_and_its_no_is_that_no_value_is_both():
    for (base, of_base), (value, of_value) in product(VALUES, VALUES):
        expected = (
            Fits.YES if of_value <= of_base else Fits.UNKNOWN if of_value & of_base else Fits.NO
        )
        assert fits(base, value) is expected, (base, value)


def test_the_common_base_is_the_least_that_contains_both():
    for (a, of_a), (b, of_b) in product(VALUES[::2], VALUES[::3]):
        found = described(common_base(a, b))
        both = of_a | of_b
        assert both <= found, (a, b)
        if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
            continue  # other pairs of the small world may describe less
        assert not any(both <= other < found for _, other in VALUES), (a, b)


# ------------------------------------------------------------------------------------ symbolic sizes

N, M = Var("n", "int64"), Var("m", "int64")
EXTENTS = [
    N,
    M,
    N + 1,
    N + M,
    M + N,
    N * 2,
    N + N,
    N - N + 3,
    N // 2,
    relax.ShapeExpr([3]).values[0],
]


@given(st.sampled_from(EXTENTS), st.sampled_from(EXTENTS))
def test_answers_about_sizes_hold_for_all_their_values(a, b):
    answer = fits(TensorStructInfo((a,)), TensorStructInfo((b,)))
    sizes = [[value(e, n, m) for e in (a, b)] for n, m in product(range(5), range(5))]
    if answer is Fits.YES:
        assert all(x == y for x, y in sizes)
    if answer is Fits.NO:
        assert all(x != y for x, y in sizes)


def value(extent, n, m):
    numbers = {N: const(n, "int64"), M: const(m, "int64")}
    return Analyzer().simplify(substitute(extent, numbers)).value


# ----------------------------------------------------------------------------------------- functions


def function(params, ret, pure=True):
    return FuncStructInfo(params, ret, pure)


def test_functions_take_more_and_give_less():
    any_tensor, row = TensorStructInfo(None, None), TensorStructInfo((4,), "float32")
    general, special = function([any_tensor], row), function([row], any_tensor)
    assert fits(special, general) is Fits.YES
    assert fits(general, special) is Fits.UNKNOWN
    assert fits(function([row, row], row), general) is Fits.NO
    assert fits(general, function([any_tensor], row, pure=False)) is Fits.NO
    assert fits(function([any_tensor], row, pure=False), general) is Fits.YES
    assert fits(FuncStructInfo.opaque_func(), general) is Fits.YES
    assert fits(general, FuncStructInfo.opaque_func(ret=row, purity=True)) is Fits.UNKNOWN


def test_what_functions_have_in_common():
    row, column = TensorStructInfo((4,), "float32"), TensorStructInfo((4, 1), "float32")
    f, g = function([row], row), function([row], column, pure=False)
    base = common_base(f, g)
    assert is_base_of(base, f)
    assert is_base_of(base, g)
    assert base.ret.dtype == "float32"


# ------------------------------------------------- What a call means for the function that it names

KERNELS = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def add(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4,), "float32"),
            C: T.Buffer((8, 4), "float32")):
        for i, j in T.grid(8, 4):
            C[i, j] = A[i, j] + B[j]

    @T.prim_func
    def rows(a: T.handle, b: T.handle):
        n, k = T.int64(), T.int64()
        A = T.match_buffer(a, (n, k))
        B = T.match_buffer(b, (n + 1,))
        for i in range(n):
            B[i] = A[i, 0]

    @T.prim_func
    def fill(a: T.handle, n: T.int32, s: T.float32):
        A = T.match_buffer(a, (n,))
        for i in range(n):
            A[i] = s
""")


def tensor(*shape, dtype="float32"):
    return relax.TensorStructInfo(shape, dtype)


def var(name, *shape, dtype="float32"):
    return relax.Var(name, tensor(*shape, dtype=dtype))


def call(name, args, out, **more):
    return relax.call_tir(GlobalVar(name), args, out, **more)


def test_the_result_is_what_is_stated():
    out = tensor(8, 4)
    assert result_of(call("add", [var("x", 8, 4), var("b", 4)], out), KERNELS) is out


@pytest.mark.parametrize(
    ("args", "out", "message"),
    [
        (
            [var("x", 8, 5), var("b", 4)],
            tensor(8, 4),
            r'parameter A of "add" is .*8, 4.* but argument 0, x, is .*8, 5'
            r".*change the array, or declare",
        ),
        (
            [var("x", 8, 4, dtype="float16"), var("b", 4)],
            tensor(8, 4),
            'parameter A of "add".*float32.*argument 0, x, is .*float16.*convert the array',
        ),
        ([var("x", 8, 4), var("b", 4, 1)], tensor(8, 4), 'parameter B of "add".*argument 1, b, is'),
        ([var("x", 8, 4), var("b", 4)], tensor(4, 8), 'parameter C of "add".* but the output is'),
        (
            [var("x", 8, 4)],
            tensor(8, 4),
            r'"add" takes 3 parameter\(s\) \(A, B, C\), the call passes 2: 1 argument\(s\), '
            r"1 output\(s\) and 0 of tir_vars",
        ),
        (
            [var("x", 8, 4), relax.PrimValue(4)],
            tensor(8, 4),
            'parameter B of "add" is .* but argument 1 is .*pass a value of the declared type',
        ),
    ],
)
def test_a_call_that_does_not_fit(args, out, message):
    with pytest.raises((IRTypeError, IRValueError), match=message):
        check_call_tir(call("add", args, out), KERNELS["add"])


def test_what_is_not_known_is_left_to_the_run():
    unknown = [relax.Var("x", relax.TensorStructInfo(None, None, 2)), relax.Var("b")]
    check_call_tir(call("add", unknown, tensor(8, 4)), KERNELS["add"])


def test_the_arguments_decide_the_sizes_of_the_function():
    m = Var("m", "int64")
    x = var("x", m + 1, 4)
    check_call_tir(call("rows", [x], tensor(m + 2)), KERNELS["rows"])
    with pytest.raises(IRTypeError, match=r'B of "rows" is .*with n = m \+ .*1.* by A.*output is'):
        check_call_tir(call("rows", [x], tensor(m + 1)), KERNELS["rows"])


def test_scalar_parameters_are_given_by_tir_vars():
    fill = KERNELS["fill"].with_(params=[*KERNELS["fill"].params[:2]])
    check_call_tir(call("fill", [], tensor(16), tir_vars=[16]), fill)
    with pytest.raises(IRTypeError, match=r'n of "fill" is .*16 by A.* but tir_vars\[0\] is .*8'):
        check_call_tir(call("fill", [], tensor(16), tir_vars=[8]), fill)
    with pytest.raises(IRTypeError, match=r's of "fill" is .*tir_vars\[1\] is'):
        check_call_tir(call("fill", [], tensor(16), tir_vars=[16, 3]), KERNELS["fill"])


def test_outputs_in_place_are_no_parameters_of_their_own():
    add, args = GlobalVar("rows"), [var("x", 8, 4), var("y", 9)]
    good = relax.call_tir_inplace(add, args, [1], tensor(9))
    check_call_tir(good, KERNELS["rows"])
    with pytest.raises(IRTypeError, match='output 0 of "rows" overwrites argument 1, but is'):
        check_call_tir(relax.call_tir_inplace(add, args, [1], tensor(8)), KERNELS["rows"])


def test_names_and_kinds_of_functions():
    main = identity("n")
    mod = IRModule({**KERNELS.functions, "main": main})
    x = var("x", 8, 4)
    with pytest.raises(IRValueError, match=r'no function "ad".*did you mean add\?'):
        result_of(call("ad", [x], tensor(8, 4)), mod)
    with pytest.raises(IRTypeError, match='"main" is a graph function; call it directly'):
        result_of(call("main", [x], tensor(8, 4)), mod)
    with pytest.raises(IRValueError, match=r'"add" takes 3 argument.*R\.call_tir\(add'):
        result_of(GraphCall(GlobalVar("add"), [x]), mod)


def identity(size):
    """Return `f(x: (size, 4)) = x`."""
    x = var("x", Var(size, "int64"), 4)
    return relax.Function([x], SeqExpr([], x))


def test_a_graph_function_gives_its_result_in_the_sizes_of_the_caller():
    n, k, m = (Var(name, "int64") for name in "nkm")
    x = var("x", n, k)
    ret = relax.TupleStructInfo([tensor(k, n + 1), tensor(Var("u", "int64"), dtype="int32")])
    func = relax.Function([x], SeqExpr([], x), ret)
    for functions in (IRModule({"f": func}), {"f": func.struct_info}):
        got = result_of(GraphCall(GlobalVar("f"), [var("y", m * 2, 3)]), functions)
        assert is_base_of(got.elements[0], tensor(3, m * 2 + 1))
        # What the parameters do not decide is not known outside.
        assert (got.elements[1].shape, got.elements[1].ndim) == (None, 1)


def test_a_function_that_calls_itself_has_its_own_sizes_twice():
    n = Var("n", "int64")
    x = var("x", n)
    func = relax.Function([x], SeqExpr([], x))
    got = result_of(GraphCall(GlobalVar("f"), [var("y", n + 1)]), IRModule({"f": func}))
    assert is_base_of(got, tensor(n + 1))


def test_arguments_of_a_graph_function_are_checked():
    mod = IRModule({"f": identity("n")})
    with pytest.raises(IRTypeError, match=r'parameter x of "f" is .*argument 0, y, is'):
        result_of(GraphCall(GlobalVar("f"), [var("y", 8, 5)]), mod)
    with pytest.raises(IRValueError, match=re.escape('"f" takes 1 argument(s) (x), the call pas')):
        result_of(GraphCall(GlobalVar("f"), []), mod)


def test_purity():
    x = var("x", 8, 4)
    pure, impure = identity("n"), identity("n").with_(is_pure=False)
    mod = IRModule({**KERNELS.functions, "pure": pure, "impure": impure})
    assert is_pure_call(call("add", [x, x], tensor(8, 4)), mod)
    assert is_pure_call(relax.call_pure_packed("f", x), mod)
    assert not is_pure_call(relax.call_packed("f", x), mod)
    assert is_pure_call(GraphCall(GlobalVar("pure"), [x]), mod)
    assert not is_pure_call(GraphCall(GlobalVar("impure"), [x]), mod)
    assert not is_pure_call(GraphCall(GlobalVar("nothing"), [x], struct_info=VOID), mod)
    assert not is_pure_call(GraphCall(GlobalVar("add"), [x, x, x], struct_info=VOID), mod)


def test_a_function_is_not_pure_because_it_says_so():
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def direct(x: R.Tensor((4,))) -> R.Object:
        y = R.call_packed("print", x)
        return y

    @R.function
    def indirect(c: R.Tensor((), "bool"), x: R.Tensor((4,))) -> R.Object:
        if c:
            y = Module.direct(x)
        else:
            y = Module.indirect(c, x)
        return y

    @R.function
    def pure(c: R.Tensor((), "bool"), x: R.Tensor((4,))) -> R.Tensor((4,)):
        if c:
            y = Module.pure(c, x)
        else:
            y = R.call_pure_packed("f", x, sinfo_args=R.Tensor((4,)))
        return y
""")
    x = relax.Var("x")
    purity = {name: is_pure_call(GraphCall(GlobalVar(name), [x]), mod) for name in mod}
    assert purity == {"direct": False, "indirect": False, "pure": True}
