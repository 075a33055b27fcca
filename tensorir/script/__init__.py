"""The script dialect: parsing, printing, and decorators for scripts in Python files."""

from tensorir.nodes.node import set_printer
from tensorir.script.decorators import ir_module, prim_func
from tensorir.script.display import display, to_html
from tensorir.script.graph_namespace import R
from tensorir.script.namespace import I, T
from tensorir.script.parser import parse, parse_expr, parse_index_map
from tensorir.script.print_script import print_script, script_lines

set_printer(print_script, to_html, display)

__all__ = [
    "I",
    "R",
    "T",
    "ir_module",
    "parse",
    "parse_expr",
    "parse_index_map",
    "prim_func",
    "print_script",
    "script_lines",
]
