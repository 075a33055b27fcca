"""Random modules with graph functions, against what the interpreter gives for them.

    graph = random_graph(seed=7)
    expected = interpret_graph(graph.mod, "main", *graph.inputs(0), library=LIBRARY)

Graphs have shared inputs, calls that overwrite arguments, unused results, constants that functions
share, nested tuples as values, parameters and results, arrays without elements, all kinds of
dtypes, scalars and shapes as parameters, calls of other graph functions (some of them symbolic,
some of them calling themselves), `if` within `if`, symbolic sizes, and library functions that
return or keep what they are given.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import codegen
from benchmarks.forked_runs import Outcome
from benchmarks.fuzz.campaign import Fuzzer, Note
from benchmarks.fuzz.kernels import (
    BOOL_KERNELS,
    IN_PLACE,
    KEPT,
    LIBRARY,
    SHAPED,
    Refusal,
    kernel,
    kernel_name,
    shaped_kernel,
    shaped_kinds,
    shaped_result,
)
from codegen.errors import LibraryFunctionError
from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import BaseFunc, IRModule
from tensorir.interp import InterpreterError
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes import ops
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax.callee import is_pure_call, result_of
from tensorir.relax.function import Function
from tensorir.relax.relations import Fits, fits, is_base_of
from tensorir.relax.struct_info import (
    OBJECT,
    VOID,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import collect_vars, substitute, walk
from tensorir.transform import DataflowUseInplaceCalls, default_pipeline

__all__ = ["LIBRARY", "RandomGraph", "check", "random_graph"]

DTYPES: Final = ("float32", "int32", "float64", "int8", "float16", "bool", "uint8", "int64")
SHAPES: Final[tuple[tuple[int, ...], ...]] = ((4,), (2, 3), (0, 3), (1,), (33,), (2, 3, 4), ())
COUNTER: Final = TensorStructInfo((), "int32")


@dataclass(frozen=True)
class RandomGraph:
    """A module, its entry, and how to call it."""

    mod: IRModule
    seed: int
    entry: str = "main"

    def inputs(self, seed: int) -> list[Any]:
        """Return arguments of `main`; symbolic sizes differ between seeds."""
        func = self.mod[self.entry]
        assert isinstance(func, Function)
        return random_arguments(func, np.random.default_rng(seed))

    def __repr__(self) -> str:
        return f"random_graph({self.seed})"


def random_graph(
    seed: int,
    steps: int = 12,
    *,
    packed: bool = False,
    failing: bool = False,
    chained: bool = False,
) -> RandomGraph:
    """Return a random module whose `main` has about `steps` calls.

    With `packed`, tensor functions call library functions, which have to be registered then; with
    `failing`, calls may fail: by a `match_cast`, by extents that do not agree, or by `refuse`.
    With `chained`, most calls are of tensor functions on what was computed last, and few results
    leave their block, so that there is much to fuse.
    """
    rng = random.Random(seed)
    module = _Module(rng, packed, failing, chained)
    if rng.random() < 0.6:
        for k in range(rng.randint(1, 3)):
            module.add(f"part{k}", steps // 3 + 1, loops=rng.random() < 0.3)
    module.add("main", steps)
    return RandomGraph(IRModule(module.functions), seed)


class _Module:
    """The functions written so far, and the options of all of them."""

    def __init__(self, rng: random.Random, packed: bool, failing: bool, chained: bool) -> None:
        self.rng = rng
        self.chained = chained
        self.failing = failing
        self.kernels = [kind for kind in BOOL_KERNELS if packed or kind != "packed"]
        self.functions: dict[str, BaseFunc] = {}
        self.graphs: dict[str, Function] = {}
        self.loops: set[str] = set()
        self.constants: list[g.Constant] = []

    def add(self, name: str, steps: int, loops: bool = False) -> None:
        """Add a graph function; a loop calls itself as often as its first argument says."""
        func = (_Loop if loops else _Maker)(self).function(name, steps)
        private = name != "main" and self.rng.random() < 0.6
        self.functions[name] = func.without_attr("global_symbol") if private else func
        self.graphs[name] = func
        if loops:
            self.loops.add(name)

    def kernel(self, kind: str, info: TensorStructInfo) -> GlobalVar:
        """Return the name of a tensor function for tensors like this, which is in the module."""
        assert info.shape is not None
        assert info.dtype is not None
        names: dict[str, str] = {}
        shape = tuple(
            n.value if isinstance(n, IntImm) else names.setdefault(str(n), f"n{len(names)}")
            for n in info.shape
        )
        name = kernel_name(kind, shape, str(info.dtype))
        made = shaped_kernel if kind in SHAPED else kernel
        self.functions.setdefault(name, made(kind, shape, str(info.dtype)))
        return GlobalVar(name)


class _Maker:
    """Makes one function."""

    def __init__(self, module: _Module) -> None:
        self._module = module
        self._rng = module.rng
        self._values: list[g.GraphVar] = []
        self._bindings: list[g.Binding] = []
        self._sizes: list[Var] = []
        self._count = 0
        self._in_dataflow = False
        rng = self._rng
        self._kinds = [
            TensorStructInfo(rng.choice(SHAPES), rng.choice(DTYPES))
            for _ in range(rng.randint(1, 4))
        ]
        if rng.random() < 0.5:
            n, dtype = Var("n", "int64"), rng.choice(DTYPES)
            self._kinds += [TensorStructInfo((n, 3), dtype), TensorStructInfo((n * 2,), dtype)]
            self._sizes = [n]

    # ------------------------------------------------------------------------------------ functions

    def function(self, name: str, steps: int) -> Function:
        """Return a function of about `steps` calls."""
        params = self._params()
        self._values = list(params)
        blocks = self._blocks(steps, depth=2)
        result = self._result(blocks)
        return self._made(name, params, g.SeqExpr.rebuilt(blocks, result))

    def _made(self, name: str, params: list[g.GraphVar], body: g.SeqExpr) -> Function:
        known = self._module.functions
        inside = [n for n in walk(body) if isinstance(n, g.GraphCall)]
        others = [n for n in inside if not (isinstance(n.op, GlobalVar) and n.op.name == name)]
        is_pure = all(is_pure_call(call, known) for call in others)
        return Function(params, body, is_pure=is_pure, attrs={"global_symbol": name})

    def _params(self) -> list[g.GraphVar]:
        rng = self._rng
        infos: list[StructInfo] = [TensorStructInfo((), "bool")]
        infos += [rng.choice(self._kinds) for _ in range(rng.randint(1, 3))]
        if self._sizes:
            infos.append(self._kinds[-2])
        if rng.random() < 0.3:
            infos.append(self._tuple_info())
        if rng.random() < 0.2:
            self._sizes.append(Var("k", "int64"))
            infos.append(PrimStructInfo("int64", self._sizes[-1]))
            self._kinds.append(TensorStructInfo((self._sizes[-1],), rng.choice(DTYPES)))
        if rng.random() < 0.2:
            self._sizes.append(Var("m", "int64"))
            infos.append(ShapeStructInfo((self._sizes[-1], 2)))
            self._kinds.append(TensorStructInfo((2, self._sizes[-1]), rng.choice(DTYPES)))
        rng.shuffle(infos)
        return [g.GraphVar(f"x{k}", info) for k, info in enumerate(infos)]

    def _tuple_info(self, depth: int = 2) -> TupleStructInfo:
        return TupleStructInfo(
            self._tuple_info(depth - 1)
            if depth and self._rng.random() < 0.3
            else self._rng.choice(self._kinds)
            for _ in range(self._rng.randint(1, 3))
        )

    def _result(self, blocks: list[g.BindingBlock]) -> g.GraphExpr:
        whole = self._values[-1] if self._module.chained else self._whole(2)
        if self._rng.random() < 0.5 or not isinstance(whole, g.Tuple):
            return whole
        var = g.GraphVar("result", whole.struct_info)
        blocks.append(g.BindingBlock([g.VarBinding(var, whole)]))
        return var

    def _whole(self, depth: int) -> g.GraphExpr:
        """Return a value that exists, a constant, a number, a shape, or a tuple of such."""
        rng = self._rng
        choice = rng.random()
        if choice < 0.5 or not depth:
            return rng.choice(self._values)
        if choice < 0.6:
            return self._constant(rng.choice(self._kinds)) or rng.choice(self._values)
        if choice < 0.65:
            return g.PrimValue(self._scalar())
        if choice < 0.7:
            return g.ShapeExpr([self._scalar() for _ in range(rng.randint(0, 2))])
        return g.Tuple(self._whole(depth - 1) for _ in range(rng.randint(0 if depth < 2 else 1, 3)))

    # --------------------------------------------------------------------------------------- blocks

    def _blocks(self, steps: int, depth: int) -> list[g.BindingBlock]:
        rng = self._rng
        blocks: list[g.BindingBlock] = []
        while steps > 0:
            count = rng.randint(1, steps)
            steps -= count
            blocks.append(self._dataflow(count) if rng.random() < 0.5 else self._plain(count))
            if depth and rng.random() < 0.4:
                blocks += self._branch(depth)
        return blocks

    def _plain(self, count: int) -> g.BindingBlock:
        self._bindings = []
        for _ in range(count):
            self._step()
        return g.BindingBlock(self._bindings)

    def _dataflow(self, count: int) -> g.BindingBlock:
        """Return a block in which some variables are local, and forgotten after it."""
        self._in_dataflow = True
        block = self._plain(count)
        self._in_dataflow = False
        self._values = [v for v in self._values if not isinstance(v, g.DataflowVar)]
        return g.DataflowBlock(block.bindings)

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
            branches.append(g.SeqExpr.rebuilt(blocks, self._like(kind)))
            self._values, self._sizes, self._kinds = list(outside), list(sizes), list(kinds)
        self._bindings = []
        self._bind(g.If(condition, branches[0], branches[1]))
        yield g.BindingBlock(self._bindings)

    # ---------------------------------------------------------------------------------------- steps

    def _step(self) -> None:
        rng = self._rng
        chained = self._module.chained and rng.random() < 0.9
        x = rng.choice(self._values)
        if chained:
            x = self._values[-1] if rng.random() < 0.7 else rng.choice(self._values[-2:])
        info = x.struct_info
        if isinstance(info, TupleStructInfo):
            if len(info):
                self._bind(g.TupleGetItem(x, rng.randrange(len(info))))
            return
        if not isinstance(info, TensorStructInfo):
            return
        if info.shape is None:
            self._cast(x, info)
            return
        choice = rng.random() / (2 if chained else 1)
        if choice < 0.35:
            self._kernel_call(x, info, chained)
        elif choice < 0.5:
            self._shaped_call(x, info)
        elif choice < 0.58:
            self._bind(g.Tuple([x, *(self._whole(1) for _ in range(rng.randint(0, 2)))]))
        elif choice < 0.6:
            self._bind(x)
        elif choice < 0.63:
            self._bind(calls.view(x, self._other_shape(info)))
        elif choice < 0.68:
            constant = self._constant(info)
            if constant is not None:
                self._bind(constant)
        elif choice < 0.72:
            self._cast(x, info)
        elif choice < 0.88:
            self._library_call(x, info)
        elif self._module.graphs:
            self._graph_call()

    def _other_shape(self, info: TensorStructInfo) -> list[PrimExpr]:
        """Return a shape of as many elements."""
        extents = list(info.shape or ())
        choice = self._rng.randrange(4)
        if choice == 0:
            return [IntImm("int64", 1), *extents]
        if choice == 1:
            return [*extents, IntImm("int64", 1)]
        if choice == 2:
            return extents[::-1]
        count: PrimExpr = IntImm("int64", 1)
        for extent in extents:
            count = ops.mul(count, extent)
        return [count]

    def _cast(self, x: g.GraphVar, info: TensorStructInfo) -> None:
        """Bind a checked value: what is known already, or with sizes that the check defines."""
        rng = self._rng
        shape = info.shape
        if shape is None or (rng.random() < 0.5):
            shape = tuple(Var(f"s{len(self._sizes) + k}", "int64") for k in range(info.ndim))
        if self._module.failing and shape and rng.random() < 0.3:
            shape = (*shape[:-1], rng.choice([*self._sizes, IntImm("int64", 3)]))
        stated = TensorStructInfo(shape, info.dtype)
        if fits(stated, info) is not Fits.NO:
            self._bindings.append(g.MatchCast(self._var(stated), x, stated))
            self._sizes += [n for n in shape if isinstance(n, Var) and n not in self._sizes]

    def _kernel_call(self, x: g.GraphVar, info: TensorStructInfo, chained: bool) -> None:
        rng = self._rng
        kinds = self._module.kernels
        kind = rng.choice([k for k in kinds if k not in (*IN_PLACE, "fill")] if chained else kinds)
        if kind == "fill":
            info = rng.choice([info, *self._kinds])
        callee = self._module.kernel(kind, info)
        if kind in IN_PLACE:
            inplace = IN_PLACE[kind]
            args = [x] if kind in ("increment", "previous") else [x, self._like(info)]
            self._bind(calls.call_tir_inplace(callee, args, inplace, [info] * len(inplace)))
        elif kind == "both":
            self._bind(calls.call_tir(callee, [x, self._like(info)], [info, info]))
        elif kind == "fill":
            self._bind(calls.call_tir(callee, [], info))
        elif kind == "add_scalar":
            self._bind(calls.call_tir(callee, [x], info, [self._scalar()]))
        else:
            reads = 2 if kind in ("add", "packed") else 1
            self._bind(calls.call_tir(callee, [x, self._like(info)][:reads], info))

    def _shaped_call(self, x: g.GraphVar, info: TensorStructInfo) -> None:
        """Call a tensor function whose result has another shape, or moves elements."""
        assert info.shape is not None
        shape = tuple(n.value if isinstance(n, IntImm) else str(n) for n in info.shape)
        kind = self._rng.choice(shaped_kinds(shape, str(info.dtype)))
        args: list[g.GraphExpr] = [x]
        if kind == "add_row":
            row = TensorStructInfo(info.shape[-1:], info.dtype)
            values = [v for v in self._values if is_base_of(row, v.struct_info)]
            other = self._rng.choice(values) if values else self._constant(row)
            if other is None:
                return
            args.append(other)
        elif kind == "product":
            args.append(self._like(info))
        result = TensorStructInfo(shaped_result(kind, info.shape), info.dtype)
        self._bind(calls.call_tir(self._module.kernel(kind, info), args, result))

    def _library_call(self, x: g.GraphVar, info: TensorStructInfo) -> None:
        rng = self._rng
        known = info if rng.random() < 0.6 else TensorStructInfo(None, info.dtype, info.ndim)
        choice = rng.random()
        if choice < 0.25:
            args = [x, self._like(info)]
            self._bind(calls.call_dps_packed("random_graphs.add_to", args, info))
        elif choice < 0.35:
            self._bind(calls.call_dps_packed("random_graphs.split_to", [x], [info, info]))
        elif choice < 0.5:
            self._bind(calls.call_pure_packed("random_graphs.doubled", x, sinfo_args=known))
        elif choice < 0.6:
            self._bind(calls.call_pure_packed("random_graphs.same", x, sinfo_args=known))
        elif choice < 0.64:
            pair = TupleStructInfo([known, info])
            self._bind(calls.call_pure_packed("random_graphs.twins", x, sinfo_args=pair))
        elif choice < 0.7:
            other = self._rng.choice([v for v in self._values if _is_tensor(v.struct_info)])
            swapped = TupleStructInfo([other.struct_info, known])
            both = g.Tuple([x, other])
            self._bind(calls.call_pure_packed("random_graphs.swapped", both, sinfo_args=swapped))
        elif choice < 0.78:
            shape = g.ShapeExpr([self._scalar() for _ in range(rng.randint(0, 2))])
            args = [shape, g.PrimValue(self._scalar()), g.StringValue("text")]
            made = TensorStructInfo(shape.values, "int32")
            self._bind(calls.call_pure_packed("random_graphs.shaped", *args, sinfo_args=made))
        elif self._in_dataflow:
            return
        elif choice < 0.85:
            self._bind(calls.call_packed("random_graphs.keep", x, sinfo_args=VOID))
            self._values.pop()
        elif choice < 0.95 or not self._module.failing:
            self._bind(calls.call_packed("random_graphs.kept", x, sinfo_args=known))
        else:
            self._bind(calls.call_packed("random_graphs.refuse", x, sinfo_args=known))

    def _graph_call(self) -> None:
        rng = self._rng
        name = rng.choice(list(self._module.graphs))
        func = self._module.graphs[name]
        if self._in_dataflow and not is_pure_call(_call(name, []), self._module.functions):
            return
        sizes: dict[Var, PrimExpr] = {}
        args = [self._argument(param.struct_info, sizes) for param in func.params]
        if any(arg is None for arg in args):
            return
        if name in self._module.loops:
            args[0] = g.Constant(np.int32(rng.randint(0, 3)))
        call = _call(name, [arg for arg in args if arg is not None])
        known = result_of(call, self._module.functions)
        self._bind(_call(name, call.args, known))

    # --------------------------------------------------------------------------------------- values

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
        assert wanted.shape is not None
        fitting = []
        for var in self._values:
            info = var.struct_info
            if not isinstance(info, TensorStructInfo) or info.shape is None:
                continue
            trial = dict(sizes)
            if info.dtype == wanted.dtype and _agree(wanted.shape, info.shape, trial):
                fitting.append((var, trial))
        if fitting and self._rng.random() < 0.9:
            found, trial = self._rng.choice(fitting)
            sizes.update(trial)
            return found
        return self._constant(wanted)

    def _like(self, info: StructInfo) -> g.GraphExpr:
        """Return an existing value of this kind, else a constant."""
        same = [v for v in self._values if is_base_of(info, v.struct_info)]
        if self._module.chained:
            same = same[-2:]
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

    def _bind(self, value: g.GraphExpr) -> None:
        self._bindings.append(g.VarBinding(self._var(value.struct_info), value))

    def _var(self, info: StructInfo) -> g.GraphVar:
        local = self._in_dataflow and self._rng.random() < (0.95 if self._module.chained else 0.7)
        self._count += 1
        var = (g.DataflowVar if local else g.GraphVar)(f"v{self._count}", info)
        self._values.append(var)
        return var


class _Loop(_Maker):
    """Makes a function that calls itself: its first parameter counts down to 0."""

    def function(self, name: str, steps: int) -> Function:
        """Return a function of about `steps` calls a round."""
        self._sizes = []
        self._kinds = [info for info in self._kinds if info.static_shape is not None]
        kind = self._rng.choice(self._kinds)
        count, x = g.GraphVar("count", COUNTER), g.GraphVar("x", kind)
        self._values = [x]
        blocks = self._blocks(steps, depth=1)
        self._bindings = []
        callee = self._module.kernel("decrement", COUNTER)
        self._bind(calls.call_tir(callee, [count], COUNTER))
        args = [self._values[-1], self._like(kind)]
        self._bind(_call(name, args, kind))
        blocks.append(g.BindingBlock(self._bindings))
        again = g.SeqExpr.rebuilt(blocks, self._like(kind))
        result = g.GraphVar("result", kind)
        chosen = g.VarBinding(result, g.If(count, again, g.SeqExpr([], x)))
        return self._made(name, [count, x], g.SeqExpr([g.BindingBlock([chosen])], result))


def _call(name: str, args: Any, info: StructInfo = OBJECT) -> g.GraphCall:
    return g.GraphCall(GlobalVar(name), args, struct_info=info)


def _agree(
    wanted: tuple[PrimExpr, ...], shape: tuple[PrimExpr, ...], sizes: dict[Var, PrimExpr]
) -> bool:
    """Say whether a shape fits the one of a parameter, having given its sizes their values."""
    if len(wanted) != len(shape):
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
    return _is_tensor(info) and info.ndim == 0 and not info.dtype.is_float  # type: ignore[attr-defined]


def _is_tensor(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and info.shape is not None


# ----------------------------------------------------------------------------------- arguments


def random_arguments(func: Function, rng: np.random.Generator) -> list[Any]:
    """Return arrays of small numbers, tuples of such, shapes and integers."""
    sizes: dict[Var, int] = {}
    return [_argument(param.struct_info, sizes, rng) for param in func.params]


def _argument(info: StructInfo, sizes: dict[Var, int], rng: np.random.Generator) -> Any:
    if isinstance(info, TupleStructInfo):
        return tuple(_argument(part, sizes, rng) for part in info.elements)
    if isinstance(info, PrimStructInfo):
        return 0 if info.value is None else _number(info.value, sizes, rng)
    if isinstance(info, ShapeStructInfo):
        return tuple(_number(n, sizes, rng) for n in info.values or ())
    assert isinstance(info, TensorStructInfo)
    assert info.shape is not None
    assert info.dtype is not None
    shape = [_number(n, sizes, rng) for n in info.shape]
    high = 2 if info.dtype == "bool" else 4
    return np.asarray(rng.integers(0, high, shape)).astype(info.dtype.to_numpy())


def _number(extent: PrimExpr, sizes: dict[Var, int], rng: np.random.Generator) -> int:
    """Return an extent: a number, a size, or twice a size."""
    if isinstance(extent, IntImm):
        return extent.value
    if isinstance(extent, Var):
        return sizes.setdefault(extent, int(rng.integers(0, 6)))
    factor, var = 1, extent
    for part in walk(extent):
        if isinstance(part, IntImm):
            factor = part.value
        elif isinstance(part, Var):
            var = part
    return factor * _number(var, sizes, rng)


# ----------------------------------------------------------------------------------- the check


def check(seed: int, *, guard_pages: bool = True) -> None:
    """Compile and call one random graph; AssertionError where a result differs.

    Results must not share memory with arguments, with one another, or with later results, and
    arguments must stay as they are.
    """
    for name, function in LIBRARY.items():
        codegen.register_func(name, function, override=True)
    failing = seed % 5 == 0
    graph = random_graph(
        seed, 4 + seed % 17, packed=seed % 2 == 0, failing=failing, chained=seed % 3 == 0
    )
    mod = default_pipeline()(graph.mod) if seed % 3 < 2 else graph.mod
    if seed % 4 < 3:
        mod = DataflowUseInplaceCalls(smallest=0)(mod)
    executable = codegen.vm_build(mod, "llvm", guard_pages=guard_pages)
    machine = codegen.VirtualMachine(executable, codegen.cpu())
    KEPT.clear()
    results: list[tuple[Any, Any]] = []
    for call in range(3):
        inputs = graph.inputs(call)
        before = [x.copy() for x in _arrays(inputs)]
        try:
            expected = interpret_graph(graph.mod, graph.entry, *inputs, library=LIBRARY)
        except (IRTypeError, IRValueError, InterpreterError, Refusal):
            assert failing, "the interpreter raised"
            # An unused call of a pure function is dropped, and its error with it.
            with suppress(IRTypeError, IRValueError, LibraryFunctionError):
                machine[graph.entry](*inputs)
            continue
        result = machine[graph.entry](*inputs)
        for x, y in zip(_arrays(inputs), before, strict=True):
            np.testing.assert_array_equal(x, y, "an argument was changed")
        results.append((result, expected))
        arrays = [*_arrays(inputs), *(x for r, _ in results for x in _arrays(r))]
        for k, x in enumerate(arrays):
            for y in arrays[k + 1 :]:
                assert not np.may_share_memory(x, y), "two arrays share memory"
    for result, expected in results:
        _compare(result, expected)
    for array, held in KEPT:
        np.testing.assert_array_equal(array, held, "what a library function kept was changed")


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in _arrays(part)]
    return [value] if isinstance(value, np.ndarray) else []


def _compare(result: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert isinstance(result, tuple)
        assert len(result) == len(expected)
        for part, wanted in zip(result, expected, strict=True):
            _compare(part, wanted)
        return
    np.testing.assert_array_equal(result, expected, strict=isinstance(expected, np.ndarray))


class Graphs(Fuzzer):
    """Graph functions in the executor, two of three fused, compared with the interpreter.

    Each is compiled with guard pages and called three times with other sizes.
    """

    batch = 20

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        check(case)
        return {}

    def described(self, case: int, outcome: Outcome, lines: Sequence[str]) -> str:
        return f"check({case})"
