"""Programs are printed as they are read; texts of TVM read back."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz.graphs import random_graph
from tensorir import (
    I,
    IRModule,
    IRValueError,
    T,
    assert_structural_equal,
    parse,
    relax,
    structural_equal,
    structural_hash,
)
from tensorir.dialect import Dialect
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const
from tensorir.relax import Constant, Function, Operator, SeqExpr, TensorStructInfo
from tensorir.transform.pipelines import LOWERING
from tests.recorded import RECORDED, recorded

# ----------------------------------------- Scripts parse, print and parse again to the same program

SAMPLE = """\
from tensorir import I, T

@I.ir_module
class Module:
    @T.prim_func
    def main(X: T.Buffer((64, 32), "float32"), W: T.Buffer((48, 32), "float32"), Y: T.Buffer((64, 48), "float32")):
        T.func_attr({"tir.noalias": True})
        # with T.block("root"):
        acc = T.alloc_buffer((64, 48))
        for i, j, k_0, k_1 in T.grid(64, 48, 8, 4):
            with T.block("dense"):
                vi, vj = T.axis.remap("SS", [i, j])
                vk = T.axis.reduce(32, k_0 * 4 + k_1)
                T.reads(X[vi, vk], W[vj, vk])
                T.writes(acc[vi, vj])
                T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})
                with T.init():
                    acc[vi, vj] = T.float32(0.0)
                acc[vi, vj] = acc[vi, vj] + X[vi, vk] * W[vj, vk]
        for i in T.parallel(64, annotations={"pragma_auto_unroll_max_step": 16}):
            for j in T.vectorized(48):
                with T.block("relu"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(acc[vi, vj])
                    T.writes(Y[vi, vj])
                    Y[vi, vj] = T.max(acc[vi, vj], T.float32(0.0))"""


def test_printing_gives_back_the_text():
    assert parse(SAMPLE).script() == SAMPLE


@I.ir_module
class Decorated:
    @T.prim_func
    def main(A: T.Buffer((8, 32), "float32"), S: T.Buffer((8,), "float32"), s: T.float32):
        for i, k in T.grid(8, 32):
            with T.block("rowsum"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = 0.0
                S[vi] += A[vi, vk] * s


def test_decorated_module_is_completed():
    text = Decorated.script()
    assert "T.reads(A[vi, vk])" in text
    assert "T.writes(S[vi])" in text
    assert_structural_equal(parse(text), Decorated)


def test_names_do_not_count_for_equality_and_hash():
    renamed = SAMPLE.replace("vk", "reduced").replace("acc", "buffer")
    assert structural_equal(parse(SAMPLE), parse(renamed))
    assert structural_hash(parse(SAMPLE)) == structural_hash(parse(renamed))
    other = SAMPLE.replace("T.float32(0.0)", "T.float32(1.0)")
    assert not structural_equal(parse(SAMPLE), parse(other))


def test_hash_is_the_same_in_every_process():
    assert structural_hash(parse(SAMPLE)) == 5150229554741542772


@pytest.mark.parametrize("name", RECORDED)
def test_every_reference_program_round_trips(name):
    for entry in recorded(name)[::4]:
        for field in ("before", "mid", "after"):
            if entry.get(field):
                program = parse(entry[field])
                assert program.script(dialect="tvm").strip() == entry[field].strip()
                assert_structural_equal(parse(program.script()), program)


# ---------------- Programs that Apache TVM 0.27.0 printed are read, and read back from our own text


@cache
def programs(file_name: str) -> dict[str, str]:
    path = Path(__file__).parents[2] / "vectors" / f"{file_name}.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts: dict[str, str] = json.load(file)["programs"]
    return texts


@pytest.mark.parametrize("family", ["lowered", "relax", "te", "topi"])
def test_operators_read_back(family: str) -> None:
    texts = programs("operators")
    names = [name for name in texts if name.startswith(f"{family}.")][::2]
    assert names
    failed = {}
    for name in names:
        try:
            program = parse(texts[name])
            assert_structural_equal(parse(program.script()), program)
        except (ValueError, TypeError, RuntimeError) as error:
            failed[name] = str(error)
    assert failed == {}


@pytest.mark.parametrize("name", programs("graphs"))
def test_modules_read_back(name: str) -> None:
    module = parse(programs("graphs")[name])
    assert_structural_equal(parse(module.script(show_meta=True)), module)


# -------------- Graph functions as they are printed; what is printed reads back as the same program

PRINTED = """from tensorir import I, R, T

@I.ir_module
class Module:
    @T.prim_func
    def relu(X: T.Buffer((1, 4), "float32"), Y: T.Buffer((1, 4), "float32")):
        # with T.block("root"):
        for i, j in T.grid(1, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(X[vi, vj])
                T.writes(Y[vi, vj])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0.0))

    @R.function(private=True)
    def same(s: R.Tensor(("n", "n * 2"), dtype="float32")) -> R.Tensor(("n", "n * 2"), dtype="float32"):
        n = T.int64()
        return s

    @R.function(pure=False)
    def main(x: R.Tensor((1, 4), dtype="float32"), c: R.Tensor((), dtype="bool"), o: R.Object, f: R.Callable((R.Tensor,), R.Tuple, True)) -> R.Tuple(R.Tensor((1, 4), dtype="float32"), R.Tensor(dtype="float32", ndim=2)):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((1, 4), dtype="float32"))
            b = R.call_dps_packed("env.two", (a, R.const([1.5, 0.1], "float32")), out_sinfo=[R.Tensor((1, 4), dtype="float32"), R.Tensor((4,), dtype="int32")])
            d: R.Tensor((1, 4), dtype="float32") = b[0]
            R.output(a, d)
        k = T.int64()
        e = R.match_cast(o, R.Tensor((k, k * 2), dtype="float32"))
        g: R.Tensor((k, k * 2), dtype="float32") = cls.same(e)
        R.call_packed("env.log", g, R.prim_value(1), R.str("a \\"text\\""), R.shape([k, 2]), sinfo_args=(R.Tuple,))
        if c:
            h = R.call_tir(cls.relu, (d,), out_sinfo=R.Tensor((1, 4), dtype="float32"))
        else:
            h = x
        r: R.Tensor(dtype="float32", ndim=2) = R.call_packed("env.f", h, sinfo_args=(R.Tensor(dtype="float32", ndim=2),))
        return (h, r)"""


def test_a_module_is_printed_as_it_is_read() -> None:
    assert parse(PRINTED).script() == PRINTED


@pytest.mark.parametrize("dialect", ["tensorir", "tvm"])
def test_every_dialect_reads_back(dialect: Dialect) -> None:
    mod = parse(PRINTED.replace("R.const([1.5, 0.1], ", "R.const(1.5, "))
    assert_structural_equal(parse(mod.script(dialect=dialect)), mod)


def test_a_number_that_is_known_of_a_scalar_is_an_int64() -> None:
    text = """from tensorir import R

@R.function
def main() -> R.Tuple(R.Prim(value=3), R.Prim(value=T.bool(True))):
    return (R.prim_value(3), R.prim_value(T.bool(True)))"""
    func = parse(text)
    assert_structural_equal(parse(func.script()), func)


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_random_modules_read_back(seed: int) -> None:
    """As they are, and at a stage of lowering."""
    stages = [random_graph(seed).mod]
    for step in LOWERING[: seed % (len(LOWERING) + 1)]:
        stages.append(step(stages[-1]))
    for mod in (stages[0], stages[-1]):
        text = mod.script(show_meta=True)
        again = parse(text)
        assert_structural_equal(again, mod)
        assert again.script(show_meta=True) == text


# ------------------------------------------------------------------------------------------ constants


def with_constant(data: object, dtype: str | None = None) -> Function:
    """Return a function that returns an array."""
    constant = Constant(data, dtype)  # type: ignore[arg-type]
    return Function([], SeqExpr([], constant), attrs={"global_symbol": "main"})


SHORT = {
    "R.const(1.0, \"float32\")": np.float32(1),
    "R.const(0.1, \"float32\")": np.float32(0.1),
    "R.const(-3, \"int8\")": np.int8(-3),
    "R.const(True, \"bool\")": np.bool_(True),
    'R.const("nan", "float64")': np.float64("nan"),
    'R.const([1.0, "-inf"], "float16")': np.array([1, -np.inf], "float16"),
    'R.const([[1], [2]], "int64")': np.array([[1], [2]]),
    'R.const([], "int32")': np.zeros(0, "int32"),
}  # fmt: skip


@pytest.mark.parametrize("text", SHORT)
def test_short_arrays_are_written_out(text: str) -> None:
    func = with_constant(SHORT[text])
    assert func.script().endswith(f"return {text}")
    assert_structural_equal(parse(func.script()), func)


LONG = {
    "many elements": Constant(np.arange(40, dtype="float32").reshape(2, 20)),
    "a shape without elements": Constant(np.zeros((0, 3), "float32")),
    "a type that NumPy lacks": Constant(np.array([1, 2], "uint16"), "bfloat16"),
    "a NaN of other bits": Constant(np.array(0x7FC00001, "uint32").view("float32")),
    "bytes in another order": Constant(np.arange(40, dtype=">f4").astype("float32")),
    "bools": Constant(np.arange(40) % 3 == 0),
}


@pytest.mark.parametrize("name", LONG)
def test_other_arrays_stand_in_front(name: str) -> None:
    func = Function([], SeqExpr([], LONG[name]), attrs={"global_symbol": "main"})
    text = func.script(show_meta=True)
    assert text.endswith('return metadata["relax.expr.Constant"][0]')
    assert_structural_equal(parse(text), func)


def test_without_the_arrays_the_text_says_so() -> None:
    func = with_constant(np.zeros(100))
    assert func.script().endswith(
        "# Metadata omitted. Use show_meta=True in script() method to show it."
    )


def test_arrays_that_were_left_out_may_be_given() -> None:
    func = with_constant(np.arange(100))
    arrays = {"relax.expr.Constant": [func.body.body]}
    assert_structural_equal(parse(func.script(), extra_vars={"metadata": arrays}), func)


def test_the_arrays_of_tvm_0_19_are_read() -> None:
    """Its JSON keeps arrays apart: head, number of dimensions, dtype, shape, bytes."""
    head = struct.pack("<QQiiiBBH2qq", 0xDD5E40F096B4A13F, 0, 1, 0, 2, 0, 16, 1, 2, 1, 4)
    array = base64.b64encode(head + struct.pack("<2h", -1, 7)).decode()
    nodes = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["relax.expr.Constant"], "data": [2]},
        {"type_key": "Array", "data": [3]},
        {"type_key": "relax.expr.Constant", "attrs": {"data": "0", "span": "0"}},
    ]
    document = json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": [array]})
    func = parse(
        f'metadata = tvm.ir.load_json("""{document}""")\n@R.function\n'
        'def main():\n    return metadata["relax.expr.Constant"][0]'
    )
    assert_structural_equal(func, with_constant(np.array([[-1], [7]], "int16")))


def test_the_dialects_of_tvm_do_not_write_arrays() -> None:
    func = with_constant(np.zeros(100))
    with pytest.raises(
        IRValueError, match=r"cannot be printed in the dialect 'tvm'.*show_meta=False"
    ):
        func.script(dialect="tvm", show_meta=True)


# --------------------------------------------------------------------------------- parts and marks


def test_parts_are_printed_by_themselves() -> None:
    mod = parse(PRINTED)
    assert isinstance(mod, IRModule)
    main = mod["main"]
    assert isinstance(main, Function)
    flow, rest = main.body.blocks
    assert str(flow.bindings[2]) == 'd: R.Tensor((1, 4), dtype="float32") = b[0]'
    assert (
        str(rest.bindings[0])
        == 'k = T.int64()\ne = R.match_cast(o, R.Tensor((k, k * 2), dtype="float32"))'
    )
    assert str(flow).startswith("with R.dataflow():\n    a = R.call_tir(")
    assert str(main.body).endswith("return (h, r)")
    assert str(rest.bindings[3].value).startswith("if c:\n    value = R.call_tir(")
    assert str(main.params[1].struct_info) == 'R.Tensor((), dtype="bool")'


def test_a_lone_function_names_functions_that_are_not_in_the_text() -> None:
    mod = parse(PRINTED)
    assert isinstance(mod, IRModule)
    text = mod["main"].script()
    assert text.startswith("from tensorir import I, R, T\n")
    assert 'R.call_tir(I.GlobalVar("relu"), (x,), out_sinfo=' in text
    assert_structural_equal(parse(text, check_well_formed=False), mod["main"])


def lines_with_carets(node: Node, **marks: object) -> list[tuple[str, str]]:
    """Return what is underlined: the lines, and what the carets stand under."""
    lines = node.script(**marks).split("\n")
    found = []
    for line, carets in pairwise(lines):
        if carets.strip() and set(carets) <= {" ", "^"}:
            at = carets.index("^")
            found.append((line.strip(), line[at : len(carets)]))
    return found


PATHS = {
    "body.blocks[0].bindings[1].value.args[1].elements[0]": "a",
    "body.blocks[0].bindings[0].value.sinfo_args[0].shape[1]": "4",
    "body.blocks[1].bindings[3].value.cond": "c",
    "ret_struct_info.elements[1]": 'R.Tensor(dtype="float32", ndim=2)',
    "body.body.elements[1]": "r",
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_underlined(path: str) -> None:
    mod = parse(PRINTED)
    ((_, marked),) = lines_with_carets(mod, path_to_underline=[f"<root>.functions['main'].{path}"])
    assert marked == PATHS[path]


def test_comments_stand_beside_bindings_and_above_blocks() -> None:
    mod = parse(PRINTED)
    assert isinstance(mod, IRModule)
    main = mod["main"]
    assert isinstance(main, Function)
    flow = main.body.blocks[0]
    text = mod.script(obj_to_annotate={flow: "pure", flow.bindings[2]: "the first"})
    assert "        # pure\n        with R.dataflow():\n" in text
    assert "= b[0]  # the first\n" in text


def test_sizes_have_the_type_that_they_are_read_with() -> None:
    info = TensorStructInfo([const(3, "int64")])
    assert str(info) == 'R.Tensor((3,), dtype="float32")'
    assert str(relax.PrimValue(3)) == "R.prim_value(3)"
    assert str(relax.PrimValue(const(3, "int32"))) == "R.prim_value(T.int32(3))"


def test_operators_are_called_with_their_attributes_by_name() -> None:
    name = "test_graph_round_trip.scale"
    if not Operator.exists(name):
        Operator.register(f"relax.{name}", lambda args, attrs, infos: args[0].struct_info)
    func = parse(f"""
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.{name}(x, by=[1, (2, "a")], out=None)
    return y
""")
    assert f'R.{name}(x, by=[1, [2, "a"]], out=None)' in func.script()
    assert_structural_equal(parse(func.script()), func)
