"""Printed programs: they read back, in either form, and have underlines and comments."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tensorir import (
    BufferRegion,
    I,
    IRModule,
    IRValueError,
    MatchBufferRegion,
    Range,
    T,
    Var,
    assert_structural_equal,
    decl_buffer,
    get_first_structural_mismatch,
    parse,
)
from tensorir.function import PrimFunc
from tensorir.nodes.expr import IntImm, PointerType, PrimType, StringImm, TupleType
from tensorir.nodes.stmt import BufferStore, Evaluate
from tensorir.rewriting.visit import walk
from tensorir.script.display import to_html
from tests.recorded import recorded

SUM = """\
from tensorir import I, T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
        # with T.block("root"):
        for i, k in T.grid(8, 4):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A[vi, vk]"""


def int_imm(value: int) -> IntImm:
    return IntImm("int32", value)


def reads_back(program) -> str:
    """Check that a program reads back from its text, and return that."""
    text = program.script()
    assert_structural_equal(parse(text), program)
    return text


def carets(text: str) -> list[tuple[str, str]]:
    """Return each line that has carets under it, and what stands above them."""
    lines = text.splitlines()
    found = []
    for above, line in pairwise(lines):
        if line and not line.strip("^ "):
            shown = "".join(c if m == "^" else " " for c, m in zip(above, line, strict=False))
            found.append((above.strip(), " ".join(shown.split())))
    return found


def marked(program, *things, **options) -> list[tuple[str, str]]:
    return carets(program.script(obj_to_underline=things, **options))


# ---------------------------------------------------------------------------------------- dialects


def test_printed_programs_run_where_they_are_pasted(tmp_path, monkeypatch):
    module = parse(SUM)
    (tmp_path / "pasted_program.py").write_text(module.script())
    monkeypatch.syspath_prepend(str(tmp_path))
    import pasted_program  # noqa: PLC0415  written above

    assert_structural_equal(pasted_program.Module, module)


@pytest.mark.parametrize("symbol", ["", "a-b", "for", "None", "é"])
def test_a_symbol_that_is_no_name_is_an_attribute(symbol):
    attrs = f'T.func_attr({{"global_symbol": "{symbol}"}})'
    func = parse(f"@T.prim_func\ndef f():\n    {attrs}\n    T.evaluate(0)")
    assert (attrs in func.script()) == (symbol != "é")
    assert_structural_equal(parse(func.script()), func)


@pytest.mark.parametrize(
    "result", ["T.int32", 'T.handle("float32", "global")', "T.Tuple(T.int32, T.Tuple(T.handle))"]
)
def test_types_of_results(result):
    func = parse(f"@T.prim_func\ndef f() -> {result}:\n    T.evaluate(0)")
    assert f"def f() -> {result}:" in func.script()
    assert_structural_equal(parse(func.script()), func)


def test_prefixes_are_imported_under_their_names():
    header = parse(SUM).script(ir_prefix="ir", tir_prefix="tir").splitlines()[0]
    assert header == "from tensorir import I as ir, T as tir"


@pytest.mark.parametrize("dialect", ["tensorir", "tvm"])
def test_every_dialect_is_read(dialect):
    module = parse(SUM)
    assert_structural_equal(parse(module.script(dialect=dialect)), module)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dialect": "relay"}, "dialect must be one of tensorir, tvm, got 'relay'"),
        ({"tir_prefix": "T-1"}, "tir_prefix must be an identifier, got 'T-1'"),
        ({"tir_prefix": "for"}, "tir_prefix must be an identifier, got 'for'"),
        ({"name": "class"}, "name must be an identifier, got 'class'"),
        ({"path_to_underline": ["body"]}, "an access path must begin with <root>, got 'body'"),
        ({"path_to_underline": ["<root>.body.x"]}, "<root> has no .body"),
        ({"path_to_underline": ["<root>.functions[main]"]}, "'[main]' must be `.field`"),
    ],
)
def test_options_out_of_range(options, words):
    with pytest.raises(IRValueError) as caught:
        parse(SUM).script(**options)
    assert words in str(caught.value)


# ----------------------------------------------------------------------------- buffers and their memory


def test_parameters_that_share_memory():
    text = """\
@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (16,))
    B = T.match_buffer(b, (4, 4), data=A.data)
    for i in range(16):
        B[i // 4, i % 4] = A[i]"""
    func = parse(text)
    assert text in reads_back(func)


def test_a_buffer_of_two_loops_is_declared_around_both():
    func = parse("""\
@T.prim_func
def main(d: T.handle("float32", "global")):
    A = T.Buffer((16,), data=d)
    for i in range(16):
        for j in T.vectorized(4):
            A[i] = T.float32(j)
    if T.assume(True):
        for i in range(16):
            A[i] = 2.0
""")
    assert """\
    A = T.Buffer((16,), data=d)
    for i in range(16):
        for j in T.vectorized(4):
            A[i] =""" in reads_back(func)


def test_free_variables_of_two_functions_are_defined_in_both():
    buffer = decl_buffer((Var("n", "int32"),), name="A")
    body = BufferStore(buffer, T.float32(1), [int_imm(0)])
    text = IRModule({"f": PrimFunc([], body), "g": PrimFunc([], body)}).script()
    assert text.count("n = T.int32()\n        A = T.Buffer((n,))") == 2


def test_a_stride_that_occurs_twice_is_defined_before():
    s = Var("s", "int32")
    buffer = decl_buffer((4, 4), name="A", strides=[s, s])
    assert buffer.script() == "s = T.int32()\nA = T.Buffer((4, 4), strides=(s, s))"


def test_a_region_under_a_name_of_its_own():
    outer, inner = decl_buffer((8, 8), name="A"), decl_buffer((4, 8), name="B")
    view = MatchBufferRegion(inner, BufferRegion(outer, [Range(2, 6), Range(0, 8)]))
    assert view.script() == "A = T.Buffer((8, 8))\nB = T.match_buffer(A[2:6, 0:8], (4, 8))"


def test_types():
    pointer = PointerType(PrimType("float32"), "local")
    assert TupleType([PrimType("int32"), pointer]).script() == (
        'T.Tuple(T.int32, T.handle("float32", "local"))'
    )
    assert TupleType().script() == "None"


def test_strings_have_no_control_characters():
    text = StringImm("a\x02\x00\n\x7f").script()
    assert text == '"a\\x02\\x00\\n\\x7f"'
    func = PrimFunc([], Evaluate(int_imm(0)), attrs={"global_symbol": "main", "note": "\x02\x03"})
    reads_back(func)


# ---------------------------------------------------------------------------- expressions, addresses


def test_a_lone_expression_with_the_definitions_of_what_is_in_it():
    x = Var("x", "int32")
    buffer = decl_buffer((8,), "int32", name="A")
    expr = buffer[x] + x
    assert expr.script() == "A[x] + x"
    assert (
        expr.script(verbose_expr=True)
        == """\
A = T.Buffer((8,), "int32")
x = T.int32()
A[x] + x"""
    )


def test_addresses():
    x = Var("x", "int32")
    assert (x + 1).script(show_object_address=True) == f"x_{id(x):#x} + 1"


# -------------------------------------------------------------------------------- what is pointed out


def test_statements_are_underlined():
    module = parse(SUM)
    block = module["main"].body.block.body.body.body
    line = 'with T.block("sum"):'
    assert marked(module, block) == marked(module, block.block) == [(line, line)]


def test_a_loop_of_a_nest_is_underlined_by_its_variable():
    module = parse(SUM)
    outer = module["main"].body.block.body
    assert marked(module, outer.body) == [("for i, k in T.grid(8, 4):", "k")]
    assert marked(module, outer, syntax_sugar=False) == [
        ("for i in range(8):", "for i in range(8):")
    ]


def test_comments_stand_above_blocks_and_beside_stores():
    func = parse(SUM)["main"]
    nest = func.body.block.body
    store = [n for n in walk(func.body) if isinstance(n, BufferStore)][-1]
    text = func.script(obj_to_annotate={nest: "the nest", store: "the update"})
    assert "    # the nest\n    for i, k in T.grid(8, 4):\n" in text
    assert text.endswith("B[vi] = B[vi] + A[vi, vk]  # the update")


@pytest.mark.parametrize(
    ("old", "new", "left", "right"),
    [
        ("A[vi, vk]\n", "A[vi, 0]\n", "vk", "0"),
        ("+ A[vi, vk]", "- A[vi, vk]", "B[vi] + A[vi, vk]", "B[vi] - A[vi, vk]"),
        ("T.float32(0.0)", "T.float32(1.0)", "T.float32(0.0)", "T.float32(1.0)"),
        ("(8, 4)", "(8, 5)", "4", "5"),
        ("grid(8, 4)", "grid(9, 4)", "8", "9"),
        ('"SR"', '"SS"', "vk", "vk"),
    ],
)
def test_the_first_difference_is_underlined(old, new, left, right):
    one = parse(SUM + "\n")
    other = parse((SUM + "\n").replace(old, new, 1), check_well_formed=False)
    paths = get_first_structural_mismatch(one, other)
    assert paths is not None
    shown = [
        [text for _, text in carets(program.script(path_to_underline=[path]))]
        for program, path in zip((one, other), paths, strict=True)
    ]
    assert shown == [[left], [right]]


def test_what_is_missing_is_underlined_by_what_it_is_missing_from():
    one = parse(SUM)
    with_note = one["main"].with_attr("note", 1)
    ours, theirs = get_first_structural_mismatch(one["main"], with_note)
    assert (ours, theirs) == ("<root>.attrs[<missing entry>]", "<root>.attrs['note']")
    assert carets(one["main"].script(path_to_underline=[ours]))[0][0].startswith("def main(")
    assert carets(with_note.script(path_to_underline=[theirs])) == [
        ('T.func_attr({"note": 1})', "1")
    ]
    with pytest.raises(IRValueError, match=r"caused by lhs at <root>\.attrs") as caught:
        assert_structural_equal(one["main"], with_note)
    assert "^^^" in str(caught.value)


# --------------------------------------------------------------------------------------- notebooks


def test_notebooks_show_programs_in_a_fixed_width_font():
    page = parse(SUM)._repr_html_()
    assert "monospace" in page.split("<pre", 1)[1].split(">", 1)[0]
    assert page == to_html(SUM)


@I.ir_module
class Decorated:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        A[0] = 1.0


def test_a_module_shows_itself(capsys):
    Decorated.show(dialect="tvm")
    assert capsys.readouterr().out.startswith("# from tvm.script import ir as I\n")


def test_pointing_something_out_adds_carets_and_nothing_else():
    for entry in recorded("walks")[:2]:
        program = parse(entry["before"])
        plain = program.script()
        for node in walk(program.body):
            text = program.script(obj_to_underline=[node])
            kept = [line for line in text.splitlines() if not line or line.strip("^ ")]
            assert "\n".join(kept) == plain
