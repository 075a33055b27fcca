"""`print_script`: programs as text, with underlined nodes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

from tensorir.dialect import Dialect
from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Stmt
from tensorir.recursion import any_depth
from tensorir.script.print_marks import MarkingPrinter, Marks
from tensorir.script.print_names import Named, Names
from tensorir.script.print_program import print_node
from tensorir.script.printer import Printer, PrintOptions

P = TypeVar("P", bound=Printer)


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

    - `name`: the name of the module's class, or of a single function.
    - `dialect`: `"tensorir"` begins programs with the imports of this project, `"tvm"` prints the
      form of TVM.
    - `ir_prefix`, `tir_prefix`, `relax_prefix`: the names of `I`, `T` and `R`.
    - `buffer_dtype`, `int_dtype`, `float_dtype`: the default dtypes, which are not printed.
    - `syntax_sugar`: True prints loop nests, axes and root blocks in their short forms.
    - `verbose_expr`: True prints a single expression with the definitions of its variables.
    - `show_object_address`: True appends addresses to the names of variables and buffers.
    - `show_meta`: True prints long arrays in front of the program, so that the text
      can be parsed; otherwise the last line is a note that they are omitted.
    - `obj_to_underline`: statements, bindings, expressions, variables and buffers, compared by
      identity. Carets are printed under the first line of a statement, and under every occurrence
      of the others. For one of several loops on a line, its variable is underlined.
    - `path_to_underline`: paths as in the results of `get_first_structural_mismatch`; carets are
      printed under the innermost node of the path that is visible in the text.
    - `obj_to_annotate`: comments by statement; above a statement of several lines, otherwise at the
      end of its line.

    Raises IRValueError for an invalid option or path.
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
    if marks is None:
        return _printed(node, options, Printer)[0]
    return _printed(node, options, partial(MarkingPrinter, marks=marks))[0]


def _printed(
    node: Node, options: PrintOptions, make: Callable[[PrintOptions, Names], P]
) -> tuple[str, P]:
    """Return a text, and the printer that made it."""
    homes: dict[Named, int] = {}
    while True:
        names = Names(options.show_object_address, homes)
        printer = make(options, names)
        text = print_node(printer, node)
        if names.strays.items() <= homes.items():
            return text, printer
        homes.update(names.strays)


class _LinePrinter(Printer):
    """A printer that remembers the statements of each line."""

    def __init__(self, options: PrintOptions, names: Names) -> None:
        super().__init__(options, names)
        self.statements: list[tuple[Node, ...]] = []
        self._open: list[Node] = []

    def stmt(self, node: Stmt, last: bool = False) -> None:
        """Print a statement."""
        self._open.append(node)
        super().stmt(node, last)
        self._open.pop()

    def line(self, text: str, *nodes: Node) -> None:
        """Add a line, which belongs to its statements, or to the innermost one being printed."""
        super().line(text)
        self.statements.append(nodes or tuple(self._open[-1:]))


@any_depth
def script_lines(node: Node, *, name: str | None = None) -> list[tuple[str, tuple[Node, ...]]]:
    """Return the lines of `print_script`, each with the statements that begin in it.

    Several loops may begin in a line. A line in which none begins, such as one of an axis or of a
    region, comes with the innermost statement around it; lines of the function have none.
    """
    text, printer = _printed(node, PrintOptions(name=name), _LinePrinter)
    lines = text.splitlines()
    front = len(lines) - len(printer.statements)
    return list(zip(lines, [()] * front + printer.statements, strict=True))


def _with_path(node: Node, options: PrintOptions, marks: Marks, path: str) -> Marks:
    """Return `marks` with a mark on the innermost node of a path that is visible in the text."""
    nodes = nodes_along(node, path)
    plain = _print(node, options, marks)
    for parent, child in reversed(list(pairwise(nodes))):
        marked = marks.with_place(parent, child)
        if _print(node, options, marked) != plain:
            return marked
    return marks.with_place(node, nodes[0])


_ROOT: Final = "<root>"
_STEP: Final = re.compile(
    r"""\.(?P<field>\w+) | \[(?P<index>\d+)\] | \[(?P<key>'.*?'|".*?")\] | \[<missing[^]]*>\]$""",
    re.VERBOSE,
)


def nodes_along(root: Node, path: str) -> list[Node]:
    """Return the nodes on a path, from `root` to the innermost node.

    Raises IRValueError if the text is not a path, or if a step does not exist.
    """
    if not path.startswith(_ROOT):
        raise IRValueError(f"an access path must begin with {_ROOT}, got {path!r}")
    nodes, current, position = [root], root, len(_ROOT)
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise IRValueError(
                f"{path!r} is not a path: {path[position:]!r} must be `.field`, `[0]` or `['key']`"
            )
        position = step.end()
        if step.lastgroup is None:
            break
        try:
            current = _follow(current, step)
        except (AttributeError, LookupError, TypeError) as error:
            raise IRValueError(
                f"the path {path} does not exist: {path[: step.start()]} has no {step[0]}"
            ) from error
        if isinstance(current, Node):
            nodes.append(current)
    return nodes


def _follow(value: Any, step: re.Match[str]) -> Any:
    if step["field"] == "buffer_map" and isinstance(value, PrimFunc):
        return [value.buffer_map.get(param) for param in value.params]
    if step["field"]:
        return getattr(value, step["field"])
    return value[int(step["index"]) if step["index"] else ast.literal_eval(step["key"])]
