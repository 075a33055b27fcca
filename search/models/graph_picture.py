"""Pictures of graph functions, with their calls and the operands of each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from search.errors import TuningError
from search.reports.drawing import COLOURS, new_axes
from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax.calls import destination_passing
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.operator import Operator
from tensorir.relax.visit import used_vars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FREE: Final = "#dddddd"
"""The colour of parameters and views, which need no kernel."""


@dataclass
class _Step:
    """A call or a parameter, with the rows of its operands."""

    text: str
    is_kernel: bool
    inputs: list[int]


def graph(mod: IRModule, name: str = "main", ax: Axes | None = None) -> Axes:
    """Draw a graph function: a box for each parameter and call, an arrow for each tensor.

    Calls are in the order in which they run, from top to bottom. Parameters and views, which need
    no kernel, are grey; the branches of an `if` are one box. Raises TuningError for an unknown
    function.
    """
    func = graph_functions(mod).get(name)
    if func is None:
        raise TuningError(
            f"unknown graph function {name!r}; the functions are {sorted(graph_functions(mod))}"
        )
    steps = _steps(func)
    ax = new_axes(ax)
    for row, step in enumerate(steps):
        colour = COLOURS[0] if step.is_kernel else _FREE
        box = {"boxstyle": "round", "facecolor": colour, "alpha": 0.35, "edgecolor": colour}
        ax.text(0, -row, step.text, ha="center", va="center", fontsize=8, bbox=box)
        for source in step.inputs:
            far = row - source - 1
            arrow = {
                "arrowstyle": "-|>",
                "color": "gray",
                "shrinkA": 10,
                "shrinkB": 10,
                "connectionstyle": f"arc3,rad={0 if far == 0 else -0.5}",
            }
            ax.annotate("", (0, -row), (0, -source), arrowprops=arrow)
    ax.set_xlim(-1, 1)
    ax.set_ylim(-len(steps) + 0.3, 0.7)
    ax.axis("off")
    kernels = sum(step.is_kernel for step in steps)
    ax.set_title(f"{name}: {kernels} call(s)", fontsize=9)
    return ax


def _steps(func: Function) -> list[_Step]:
    steps = [_Step(param.name, False, []) for param in func.params]
    row: dict[g.GraphVar, int] = {param: k for k, param in enumerate(func.params)}
    for binding in func.body.bindings:
        sources = [row[var] for var in dict.fromkeys(used_vars(binding.value)) if var in row]
        text = _callee_name(binding.value)
        if text is None:  # another name, a field, a tuple: use the row of its operand
            row[binding.var] = max(sources, default=0)
            continue
        row[binding.var] = len(steps)
        steps.append(_Step(text, not text.startswith("view"), sources))
    return steps


def _callee_name(value: g.GraphExpr) -> str | None:
    """Return the name of the callee of a value, None if it is not a call."""
    if isinstance(value, g.If):
        return "if"
    if not isinstance(value, g.GraphCall):
        return None
    call = destination_passing(value)
    callee = value.op if call is None else call.callee
    if isinstance(callee, Operator):
        return callee.short_name.rpartition(".")[2]
    if isinstance(callee, g.ExternFunc):
        return callee.symbol
    return callee.name
