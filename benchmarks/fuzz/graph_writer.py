"""Writing random graph functions: blocks, branches, calls of one another, and their arguments.

A kind of graphs is a `Writer` with parameters, steps and results of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir.arith import Analyzer
from tensorir.function import BaseFunc, IRModule
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.relax import expr as g
from tensorir.relax.callee import is_pure_call, result_of
from tensorir.relax.function import Function
from tensorir.relax.relations import is_base_of
from tensorir.relax.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import collect_vars, substitute, walk


@dataclass(frozen=True)
class RandomGraph:
    """A module, and how to call its function `main`."""

    mod: IRModule
    seed: int

    @property
    def main(self) -> Function:
        func = self.mod["main"]
        assert isinstance(func, Function)
        return func

    def inputs(self, seed: int) -> list[Any]:
        """Return arguments of `main`; symbolic sizes differ between seeds."""
        return random_arguments(self.main, np.random.default_rng(seed))


class Functions:
    """The functions written so far, and the constants that they share."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.functions: dict[str, BaseFunc] = {}
        self.graphs: dict[str, Function] = {}
        self.loops: set[str] = set()
        """The functions that call themselves as often as their first argument says."""
        self.constants: list[g.Constant] = []

    def add(self, name: str, func: Function) -> None:
        """Add a graph function, some of them as private ones."""
        private = name != "main" and self.rng.random() < 0.6
        self.functions[name] = func.without_attr("global_symbol") if private else func
        self.graphs[name] = func


class Writer:
    """Writes one function. Numbers below 1 are how often a choice is made."""

    dataflow = 0.5
    """Blocks of dataflow among blocks."""
    local = 0.7
    """Local variables among those of a dataflow block."""
    branches = 0.4
    """Branches after blocks."""
    latest = 0
    """The number of latest values of a kind that are taken; 0 for all of them."""

    def __init__(self, module: Functions) -> None:
        self._module = module
        self._rng = module.rng
        self._values: list[g.GraphVar] = []
        self._bindings: list[g.Binding] = []
        self._sizes: list[Var] = []
        self._kinds: list[TensorStructInfo] = []
        self._count = 0
        self._in_dataflow = False

    def _params(self) -> list[g.GraphVar]:
        raise NotImplementedError

    def _step(self) -> None:
        """Bind one value, or a few."""
        raise NotImplementedError

    def _result(self) -> g.GraphExpr:
        """Return the result of the function, having bound what it needs."""
        raise NotImplementedError

    def _end_block(self) -> None:
        """Bind what follows a block of dataflow needs of it."""

    def function(self, name: str, steps: int) -> Function:
        """Return a function of about `steps` calls."""
        params = self._params()
        self._values = list(params)
        blocks = self._blocks(steps, depth=2)
        self._bindings = []
        result = self._result()
        blocks.append(g.BindingBlock(self._bindings))
        return self._made(name, params, g.SeqExpr.rebuilt(blocks, result))

    def _made(self, name: str, params: list[g.GraphVar], body: g.SeqExpr) -> Function:
        known = self._module.functions
        inside = [n for n in walk(body) if isinstance(n, g.GraphCall)]
        others = [n for n in inside if not (isinstance(n.op, GlobalVar) and n.op.name == name)]
        is_pure = all(is_pure_call(call, known) for call in others)
        return Function(params, body, is_pure=is_pure, attrs={"global_symbol": name})

    # --------------------------------------------------------------------------------------- blocks

    def _blocks(self, steps: int, depth: int) -> list[g.BindingBlock]:
        rng = self._rng
        blocks: list[g.BindingBlock] = []
        while steps > 0:
            count = rng.randint(1, steps)
            steps -= count
            blocks.append(self._block(count))
            if depth and rng.random() < self.branches:
                blocks += self._branch(depth)
        return blocks

    def _block(self, count: int) -> g.BindingBlock:
        """Return a block; in one of dataflow some variables are local, and forgotten after it."""
        self._bindings, self._in_dataflow = [], self._rng.random() < self.dataflow
        kind = g.DataflowBlock if self._in_dataflow else g.BindingBlock
        for _ in range(count):
            self._step()
        self._in_dataflow = False
        self._end_block()
        self._values = [v for v in self._values if not isinstance(v, g.DataflowVar)]
        return kind(self._bindings)

    def _branch(self, depth: int) -> Iterator[g.BindingBlock]:
        conditions = [v for v in self._values if _is_condition(v.struct_info)]
        if not conditions:
            return
        condition = self._rng.choice(conditions)
        kind = self._rng.choice(self._values).struct_info
        outside, sizes, kinds = list(self._values), list(self._sizes), list(self._kinds)
        branches = []
        for _ in range(2):
            blocks = self._blocks(self._rng.randint(0, 3), depth - 1)
            self._bindings = []
            result = self._like(kind)
            blocks.append(g.BindingBlock(self._bindings))
            branches.append(g.SeqExpr.rebuilt(blocks, result))
            self._values, self._sizes, self._kinds = list(outside), list(sizes), list(kinds)
        self._bindings = []
        self._bind(g.If(condition, branches[0], branches[1]))
        yield g.BindingBlock(self._bindings)

    # --------------------------------------------------------------------------------------- values

    def _graph_call(self) -> None:
        rng = self._rng
        name = rng.choice(list(self._module.graphs))
        func = self._module.graphs[name]
        if self._in_dataflow and not is_pure_call(call_of(name, []), self._module.functions):
            return
        sizes: dict[Var, PrimExpr] = {}
        args = [self._argument(param.struct_info, sizes) for param in func.params]
        if any(arg is None for arg in args):
            return
        if name in self._module.loops:
            args[0] = g.Constant(np.int32(rng.randint(0, 3)))
        call = call_of(name, [arg for arg in args if arg is not None])
        known = result_of(call, self._module.functions)
        self._bind(call_of(name, call.args, known))

    def _argument(self, wanted: StructInfo, sizes: dict[Var, PrimExpr]) -> g.GraphExpr | None:
        """Return a value for a parameter of a function whose sizes are these; None without one."""
        if isinstance(wanted, TupleStructInfo):
            parts = [self._argument(part, sizes) for part in wanted.elements]
            return None if None in parts else g.Tuple(part for part in parts if part is not None)
        if isinstance(wanted, PrimStructInfo):
            assert isinstance(wanted.value, Var)
            return g.PrimValue(sizes.setdefault(wanted.value, self._scalar()))
        if isinstance(wanted, ShapeStructInfo):
            extents = [
                sizes.setdefault(n, self._scalar()) if isinstance(n, Var) else n
                for n in wanted.values or ()
            ]
            return g.ShapeExpr(extents)
        assert isinstance(wanted, TensorStructInfo)
        trials = [(var, dict(sizes)) for var in self._values]
        fitting = [(var, trial) for var, trial in trials if self._suits(var, wanted, trial)]
        if fitting and self._rng.random() < 0.9:
            found, trial = self._rng.choice(fitting)
            sizes.update(trial)
            return found
        return self._constant(wanted)

    def _suits(self, var: g.GraphVar, wanted: TensorStructInfo, sizes: dict[Var, PrimExpr]) -> bool:
        """Say whether a parameter may have a value, having given its sizes their values."""
        info = var.struct_info
        return (
            isinstance(info, TensorStructInfo)
            and info.dtype == wanted.dtype
            and _agree(wanted.shape or (), info.shape, sizes)
        )

    def _like(self, info: StructInfo) -> g.GraphExpr:
        """Return an existing value of this kind, else a constant."""
        same = [v for v in self._values if is_base_of(info, v.struct_info)]
        same = same[-self.latest :]
        constant = self._constant(info) if not same or self._rng.random() < 0.15 else None
        return self._rng.choice(same) if constant is None else constant

    def _constant(self, info: StructInfo) -> g.Constant | None:
        """Return a constant, perhaps an existing one; None for a shape that is not static."""
        shape = info.static_shape if isinstance(info, TensorStructInfo) else None
        if shape is None or not isinstance(info, TensorStructInfo) or info.dtype is None:
            return None
        known = [c for c in self._module.constants if is_base_of(info, c.struct_info)]
        if known and self._rng.random() < 0.4:
            return self._rng.choice(known)
        numbers = np.random.default_rng(self._rng.randrange(1 << 30))
        data = numbers.integers(0, 2 if info.dtype == "bool" else 4, shape)
        made = g.Constant(np.asarray(data).astype(info.dtype.to_numpy()))
        self._module.constants.append(made)
        return made

    def _scalar(self) -> PrimExpr:
        """Return a number that is at least 0: a constant, a size, or twice a size."""
        number: PrimExpr = IntImm("int64", self._rng.randint(0, 3))
        if self._sizes and self._rng.random() < 0.5:
            number = self._rng.choice(self._sizes)
            if self._rng.random() < 0.3:
                number = number * 2
        return number

    def _bind(self, value: g.GraphExpr) -> g.GraphVar:
        var = self._var(value.struct_info)
        self._bindings.append(g.VarBinding(var, value))
        return var

    def _var(self, info: StructInfo) -> g.GraphVar:
        local = self._in_dataflow and self._rng.random() < self.local
        self._count += 1
        var = (g.DataflowVar if local else g.GraphVar)(f"v{self._count}", info)
        self._values.append(var)
        return var


def call_of(name: str, args: Any, info: StructInfo = OBJECT) -> g.GraphCall:
    """Return the call of a graph function of the module."""
    return g.GraphCall(GlobalVar(name), args, struct_info=info)


def _agree(
    wanted: tuple[PrimExpr, ...], shape: tuple[PrimExpr, ...] | None, sizes: dict[Var, PrimExpr]
) -> bool:
    """Say whether a shape fits the one of a parameter, having given its sizes their values."""
    if shape is None or len(wanted) != len(shape):
        return False
    for pattern, extent in zip(wanted, shape, strict=True):
        if isinstance(pattern, Var):
            if str(sizes.setdefault(pattern, extent)) != str(extent):
                return False
            continue
        known = all(var in sizes for var in collect_vars(pattern))
        if not known or not Analyzer().can_prove_equal(substitute(pattern, sizes), extent):
            return False
    return True


def _is_condition(info: StructInfo) -> bool:
    return is_tensor(info) and info.ndim == 0 and not info.dtype.is_float  # type: ignore[attr-defined]


def is_tensor(info: StructInfo) -> bool:
    """Say whether a value is a tensor of known shape."""
    return isinstance(info, TensorStructInfo) and info.shape is not None


def random_arguments(
    func: Function,
    rng: np.random.Generator,
    sizes: dict[Var, int] | None = None,
    numbers: int = 4,
) -> list[Any]:
    """Return arrays of integers below `numbers`, tuples of such, shapes and integers.

    Variables in shapes have the values of `sizes`, others one from 0 to 5.
    """
    known = dict(sizes or {})
    return [_argument(param.struct_info, known, rng, numbers) for param in func.params]


def _argument(
    info: StructInfo, sizes: dict[Var, int], rng: np.random.Generator, numbers: int
) -> Any:
    if isinstance(info, TupleStructInfo):
        return tuple(_argument(part, sizes, rng, numbers) for part in info.elements)
    if isinstance(info, PrimStructInfo):
        return 0 if info.value is None else _number(info.value, sizes, rng)
    if isinstance(info, ShapeStructInfo):
        return tuple(_number(n, sizes, rng) for n in info.values or ())
    assert isinstance(info, TensorStructInfo)
    assert info.shape is not None
    assert info.dtype is not None
    shape = [_number(n, sizes, rng) for n in info.shape]
    high = 2 if info.dtype == "bool" else numbers
    return np.asarray(rng.integers(0, high, shape)).astype(info.dtype.to_numpy())


def _number(extent: PrimExpr, sizes: dict[Var, int], rng: np.random.Generator) -> int:
    known = {n: sizes.setdefault(n, int(rng.integers(0, 6))) for n in collect_vars(extent)}
    constants = {n: const(size, n.dtype) for n, size in known.items()}
    value = Analyzer().simplify(substitute(extent, constants))
    assert isinstance(value, IntImm)
    return value.value
