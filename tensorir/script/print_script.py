"""`print_script`: from programs to text, with places pointed out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tensorir.comparison.access_path import nodes_along
from tensorir.dialect import Dialect
from tensorir.nodes.node import Node
from tensorir.recursion import any_depth
from tensorir.script.print_marks import MarkingPrinter, Marks
from tensorir.script.print_names import Named, Names
from tensorir.script.print_program import print_node
from tensorir.script.printer import Printer, PrintOptions


@any_depth
def print_script(
    node: Node,
    *,
    name: str | None = None,
    dialect: Dialect = "tensorir",
    ir_prefix: str = "I",
    tir_prefix: str = "T",
    relax_prefix: str = "R",
    buffer_dtype: str = "float32",
    int_dtype: str = "int32",
    float_dtype: str = "void",
    indent_spaces: int = 4,
    syntax_sugar: bool = True,
    verbose_expr: bool = False,
    show_object_address: bool = False,
    show_meta: bool = False,
    obj_to_underline: Sequence[Node] = (),
    path_to_underline: Sequence[str] = (),
    obj_to_annotate: Mapping[Node, str] | None = None,
) -> str:
    """Return a program, statement, expression, buffer or type as script text.

    - `name`: of the module's class, or of a lone function.
    - `dialect`: `"tensorir"` begins programs with the import that lets them run in this project;
      `"tvm"` prints the form of TVM, `"tvm-0.10"` that of TVM before release 0.11.
    - `ir_prefix`, `tir_prefix`, `relax_prefix`: what `I`, `T` and `R` are called.
    - `buffer_dtype`, `int_dtype`, `float_dtype`: the types that go without saying.
    - `syntax_sugar`: whether nests, axes and root blocks are written in their short forms.
    - `verbose_expr`: whether a lone expression comes with the definitions of what occurs in it.
    - `show_object_address`: whether names of variables and buffers end in their addresses.
    - `show_meta`: whether arrays that are too long to be written out stand in front, so that the
      text reads back; without it, the text says that they are left out.
    - `obj_to_underline`: statements, bindings, expressions, variables and buffers, found by
      identity; carets stand under the first line of a statement, and under every occurrence of the
      others. Of several loops on one line, it is the variable that is underlined.
    - `path_to_underline`: places, as `get_first_structural_mismatch` reports them; carets stand
      under the innermost thing on the path that the text shows.
    - `obj_to_annotate`: statements to comments, which stand above a statement of several lines
      and beside others.

    Raises IRValueError for an option that is out of range, or a path that leads nowhere.
    """
    options = PrintOptions(
        name, dialect, ir_prefix, tir_prefix, relax_prefix, buffer_dtype, int_dtype, float_dtype,
        indent_spaces, syntax_sugar, verbose_expr, show_object_address, show_meta,
    )  # fmt: skip
    if not (obj_to_underline or path_to_underline or obj_to_annotate):
        return _print(node, options, None)
    marks = Marks.of_nodes(obj_to_underline, obj_to_annotate or {})
    for path in path_to_underline:
        marks = _with_path(node, options, marks, path)
    return _print(node, options, marks)


def _print(node: Node, options: PrintOptions, marks: Marks | None) -> str:
    homes: dict[Named, int] = {}
    while True:
        names = Names(options.show_object_address, homes)
        printer = (
            Printer(options, names) if marks is None else MarkingPrinter(options, names, marks)
        )
        text = print_node(printer, node)
        if names.strays.items() <= homes.items():
            return text
        homes.update(names.strays)


def _with_path(node: Node, options: PrintOptions, marks: Marks, path: str) -> Marks:
    """Return `marks` with one on the innermost node of a path that the text shows."""
    nodes = nodes_along(node, path)
    plain = _print(node, options, marks)
    for parent, child in reversed(list(pairwise(nodes))):
        marked = marks.with_place(parent, child)
        if _print(node, options, marked) != plain:
            return marked
    return marks.with_place(node, nodes[0])
