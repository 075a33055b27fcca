"""Simplification of every index expression in a program, to a canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, cast

from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.empty_reductions import around_init
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, conjuncts, is_const_int, logical_and
from tensorir.recursion import any_depth
from tensorir.rewriting.visit import Rewriter, collect_vars, uses_var

T = TypeVar("T", bound=PrimFunc | IRModule | s.Stmt | PrimExpr)


@any_depth
def simplify(program: T) -> T:
    """Return a module, function, statement or expression with its index arithmetic simplified.

    Loop bounds, bindings, predicates, regions and indices are replaced by their canonical forms:
    two programs that differ only in the way these are written become structurally equal. In
    floating-point values only the indices are simplified. Graph functions of a module are not
    changed.
    """
    if isinstance(program, IRModule):
        functions = {name: simplify(func) for name, func in program.prim_funcs().items()}
        return cast(T, IRModule({**program.functions, **functions}, program.attrs))
    if isinstance(program, PrimFunc):
        return cast(T, program.with_body(_SimplifyProgram(value_variables(program))(program.body)))
    return _SimplifyProgram()(program)


class _SimplifyProgram(Rewriter):
    def __init__(self, values: Iterable[Var] = ()) -> None:
        self._values = tuple(values)
        self._analyzer = Analyzer(self._values)
        self._around: list[tuple[Var, PrimExpr, PrimExpr]] = []
        """The loops and axes around the node, each with its minimum and extent."""

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return self._analyzer.simplify(node, sort=True)

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        low, extent = self(node.min), self(node.extent)
        self._around.append((node.loop_var, low, extent))
        with self._analyzer.loop_scope(node.loop_var, low, extent):
            body = self(node.body)
        self._around.pop()
        annotations = self.value(node.annotations)
        return s.For(node.loop_var, low, extent, node.kind, body, node.thread_binding, annotations)

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        new: s.BlockRealize = self.generic(node)
        if node.block.init is None:
            return new
        values = list(new.iter_values)
        predicate: PrimExpr = TRUE
        spatial: set[Var] = set()
        steps: set[Var] = set()
        with self._around_init(()):
            for k, (axis, value) in enumerate(zip(node.block.iter_vars, values, strict=True)):
                if axis.iter_type == IterVar.DATA_PAR:
                    values[k] = self(node.iter_values[k])
                    spatial.update(collect_vars(value))
                else:
                    steps.update(collect_vars(value))
            steps -= spatial
            for part in conjuncts(node.predicate):
                simpler = self(part)
                # A condition without variables of the reduction axes also guards the init.
                of_steps = uses_var(part, steps.__contains__)
                if of_steps and not uses_var(simpler, steps.__contains__):
                    if is_const_int(simpler, 1):
                        continue
                    simpler = part
                predicate = logical_and(predicate, simpler)
        return s.BlockRealize(values, predicate, new.block)

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        axes = [(a.var, a.dom.min, a.dom.extent) for a in node.iter_vars if a.dom is not None]
        self._around.extend(axes)
        with self._analyzer.scope():
            for axis in self.each(node.iter_vars):
                if axis.dom is not None:
                    self._analyzer.bind(axis.var, axis.dom, allow_override=True)
            new = self.generic(node)
        del self._around[len(self._around) - len(axes) :]
        if node.init is None:
            return new
        with self._around_init(axes):
            return new.with_(init=self(node.init))

    @contextmanager
    def _around_init(self, axes: Sequence[tuple[Var, PrimExpr, PrimExpr]]) -> Iterator[None]:
        """Assume the facts that hold in the init of a reduction, in a `with` statement."""
        inside = self._analyzer
        self._analyzer = Analyzer(self._values)
        with ExitStack() as scopes:
            for values in (*self._around, *axes):
                scopes.enter_context(around_init(self._analyzer, *values))
            yield
        self._analyzer = inside

    def value(self, value: Any) -> Any:
        return value if isinstance(value, e.StringImm) else super().value(value)
