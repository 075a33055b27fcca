"""Random modules whose graph functions call operators, through whole pipelines.

    graph = operator_graph(seed=7)
    mod = default_pipeline()(graph.mod)

Graphs have images, sequences and rows with symbolic numbers of examples, weights that are constants
or parameters, tuples as values and results, calls of other graph functions, and `if` within `if`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import codegen
import search  # noqa: F401 (offers the default schedules)
from benchmarks.forked_runs import Outcome
from benchmarks.fuzz.campaign import Fuzzer, Note
from benchmarks.fuzz.operator_steps import (
    LARGEST,
    LEAST_EXACT,
    LENGTHS,
    LONGEST,
    ROUNDING,
    Fact,
    Operands,
    Step,
    Value,
    extent,
    most,
    random_motif,
    random_step,
)
from codegen.history import can_be_scheduled
from codegen.schedules import default_schedules
from codegen.target import as_target
from tensorir import verify_well_formed
from tensorir.function import BaseFunc, IRModule
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax import op
from tensorir.relax.callee import result_of
from tensorir.relax.function import Function
from tensorir.relax.struct_info import OBJECT, StructInfo, TensorStructInfo, TupleStructInfo
from tensorir.rewriting.visit import walk
from tensorir.transform import LegalizeOps, default_pipeline

TARGET: Final = "llvm"

Facts: TypeAlias = "Fact | tuple[Facts, ...]"
"""The facts of a result, in the form of the result."""

KINDS: Final[dict[str, tuple[tuple[int | str, ...], ...]]] = {
    # Shapes of examples, without their number; lengths have names.
    "images": ((4, 6, 6), (4, 6, 6), (8, 5, 7), (4, 1, 1)),
    "signals": ((4, 9), (4, 9), (6, 8)),
    "sequences": ((5, 8), (5, 8), (8,)),
    "wide images": ((4, 5, "h"), (4, 5, "h"), (4, 5, 1)),
    "long signals": ((4, "m"), (4, "m")),
    "texts": (("m", 8), ("m", 8), (8,), ("m",)),
    "rows": ((8,), (8,), (3,), ()),
}

MOST_ELEMENTS: Final = 1500
"""The largest number of elements of a tensor, a symbolic size counting as 4."""

GIVEN: Final = Fact(2.0)
"""The fact of each argument of `main`."""

PASSED: Final = Fact(8.0, 100 * ROUNDING)
"""The fact of each floating-point argument of other functions."""


@dataclass(frozen=True)
class OperatorGraph:
    """A module, what its results may differ by, and how to call it."""

    mod: IRModule
    facts: Facts
    seed: int

    def inputs(self, seed: int) -> list[Any]:
        """Return arguments of `main`; numbers of examples are from 0 to 4, seldom 0."""
        func = self.mod["main"]
        assert isinstance(func, Function)
        rng = np.random.default_rng(seed)
        sizes: dict[Var, int] = {}
        made = []
        for param in func.params:
            info = param.struct_info
            assert isinstance(info, TensorStructInfo)
            assert info.shape is not None
            assert info.dtype is not None
            shape = [_size(n, sizes, rng) for n in info.shape]
            high = 2 if info.dtype == "bool" else 17
            numbers: Any = rng.integers(0, high, shape)
            if info.dtype.is_float:
                numbers = numbers / 8 - 1  # from -1 to 1, so that sums of few are exact
            made.append(np.asarray(numbers).astype(info.dtype.to_numpy()))
        return made


def _size(n: PrimExpr, sizes: dict[Var, int], rng: np.random.Generator) -> int:
    if isinstance(n, IntImm):
        return n.value
    assert isinstance(n, Var)
    drawn = rng.integers(3, LONGEST + 1) if n.name in LENGTHS else rng.choice([0, 1, 1, 2, 2, 3, 4])
    return sizes.setdefault(n, int(drawn))


def operator_graph(seed: int, steps: int = 10) -> OperatorGraph:
    """Return a random module whose `main` has about `steps` calls of operators."""
    rng = random.Random(seed)
    made = _Graphs(rng)
    if rng.random() < 0.4:
        for k in range(rng.randint(1, 2)):
            made.add(f"part{k}", steps // 2 + 1, PASSED)
    facts = made.add("main", steps, GIVEN)
    return OperatorGraph(IRModule(made.functions), facts, seed)


class _Graphs:
    """The functions written so far, and the choices that they share."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.functions: dict[str, BaseFunc] = {}
        self.facts: dict[str, Facts] = {}
        kinds = KINDS[rng.choice([*KINDS, "images", "images"])]
        dtypes = ["float32"] * 6 + ["float64", "int32", "bool"]
        self.kinds = [
            (rng.choice(kinds), rng.choice(dtypes) if k else "float32")
            for k in range(rng.randint(1, 3))
        ]
        self.symbolic = rng.random() < 0.6
        self.examples = rng.randint(1, 3)

    def add(self, name: str, steps: int, given: Fact) -> Facts:
        """Add a function and return what is known of its result."""
        func, facts = _Maker(self).function(name, steps, given)
        private = name != "main" and self.rng.random() < 0.6
        self.functions[name] = func.without_attr("global_symbol") if private else func
        self.facts[name] = facts
        return facts


class _Maker:
    """Makes one function."""

    def __init__(self, graphs: _Graphs) -> None:
        self._graphs = graphs
        self._rng = graphs.rng
        self._values: list[Value] = []
        self._bindings: list[g.Binding] = []
        self._in_dataflow = False
        self._count = 0
        self._planned: list[Step] = []
        self._done: list[tuple[g.GraphExpr, Fact]] = []
        """The calls of the current block."""
        self._used: set[g.GraphExpr] = set()
        self._number: PrimExpr = (
            Var("n", "int64") if graphs.symbolic else IntImm("int64", graphs.examples)
        )

    def function(self, name: str, steps: int, given: Fact) -> tuple[Function, Facts]:
        """Return a function of about `steps` calls."""
        rng = self._rng
        lengths = {name: Var(name, "int64") for name in LENGTHS}
        infos = [
            TensorStructInfo(
                (self._number, *(lengths[n] if isinstance(n, str) else n for n in shape)), dtype
            )
            for shape, dtype in self._graphs.kinds
        ]
        infos = [rng.choice(infos) for _ in range(rng.randint(1, 3))]
        infos.append(TensorStructInfo((), "bool"))
        params = [g.GraphVar(f"x{k}", info) for k, info in enumerate(infos)]
        for param, info in zip(params, infos, strict=True):
            is_float = info.dtype is not None and info.dtype.is_float
            self._values.append(Value(param, given if is_float else Fact(17.0)))
        blocks = self._blocks(steps, depth=2)
        result, facts = self._result()
        body = g.SeqExpr.rebuilt(blocks, result)
        return Function(params, body, attrs={"global_symbol": name}), facts

    def _result(self) -> tuple[g.GraphExpr, Facts]:
        """Return what was computed last, or a tuple of what nothing else takes."""
        last = self._values[-1]
        if self._rng.random() < 0.25:
            return last.expr, last.fact
        unused = [v for v in self._values if v.expr not in self._used][-6:]
        others = [*unused, self._rng.choice(self._values)]
        self._rng.shuffle(others)
        whole = g.Tuple([last.expr, g.Tuple(v.expr for v in others)])
        return whole, (last.fact, tuple(v.fact for v in others))

    # --------------------------------------------------------------------------------------- blocks

    def _blocks(self, steps: int, depth: int) -> list[g.BindingBlock]:
        rng = self._rng
        blocks = []
        while steps > 0:
            count = rng.randint(1, steps)
            steps -= count
            blocks.append(self._block(count, local=rng.random() < 0.75))
            if depth and rng.random() < 0.25:
                blocks += self._branch(depth)
        return blocks

    def _block(self, count: int, local: bool) -> g.BindingBlock:
        """Return a block; in one of dataflow most variables are local, and then forgotten."""
        self._bindings, self._in_dataflow, self._done = [], local, []
        tries = 0
        first = len(self._values)
        while count and tries < 100:
            tries += 1
            count -= self._call() if self._rng.random() < 0.08 else self._step()
        for value in self._values[first:]:
            if value is self._values[-1] or value.expr not in self._used:
                self._leave(value)
        self._in_dataflow = False
        self._values = [v for v in self._values if not isinstance(v.expr, g.DataflowVar)]
        bindings = self._bindings
        return g.DataflowBlock(bindings) if local else g.BindingBlock(bindings)

    def _leave(self, value: Value) -> None:
        """Give what a dataflow block computed last to what follows."""
        if isinstance(value.expr, g.DataflowVar):
            self._count += 1
            var = g.GraphVar(f"out{self._count}", value.info)
            self._append(var, value.expr)
            self._values.append(Value(var, value.fact))

    def _branch(self, depth: int) -> list[g.BindingBlock]:
        conditions = [v for v in self._values if v.dtype == "bool" and not v.shape]
        outside = list(self._values)
        wanted = self._rng.choice(outside)
        branches, fact = [], wanted.fact
        for _ in range(2):
            blocks = self._blocks(self._rng.randint(0, 3), depth - 1)
            value = self._rng.choice([v for v in self._values if _same(v, wanted)][-2:])
            added = self._with_last(value)
            if added is not None:
                value, block = added
                blocks.append(block)
            branches.append(g.SeqExpr.rebuilt(blocks, value.expr))
            fact = fact.joined(value.fact)
            self._values = list(outside)
        self._bindings = []
        condition = self._rng.choice(conditions).expr
        self._bind(g.If(condition, branches[0], branches[1]), fact)
        return [g.BindingBlock(self._bindings)]

    def _with_last(self, value: Value) -> tuple[Value, g.BindingBlock] | None:
        """Return a value plus the mean of what was computed last; None without such a number."""
        last = self._values[-1]
        if not value.dtype == last.dtype == "float32" or any(
            n is None for n in map(extent, last.shape)
        ):
            return None
        self._bindings = []
        rounding = 1000 * ROUNDING * last.fact.bound
        fact = Fact(
            value.fact.bound + last.fact.bound, value.fact.error + last.fact.error + rounding
        )
        self._bind_parts(op.add(value.expr, op.mean(last.expr)), fact)
        return self._values[-1], g.BindingBlock(self._bindings)

    # ---------------------------------------------------------------------------------------- steps

    def _step(self) -> bool:
        """Bind the call of an operator; say whether there was one."""
        rng = self._rng
        if self._done and rng.random() < 0.05:
            self._bind_parts(*rng.choice(self._done))
            return True
        x = self._values[-1]
        if not self._planned:
            if rng.random() < 0.4 or x.dtype == "bool" or not x.shape:
                x = rng.choice(self._values)
            self._planned = random_motif(rng) if rng.random() < 0.3 else [random_step(rng)]
        made = self._planned.pop(0)(Operands(rng, self._values), x)
        if made is None or not _is_moderate(*made):
            return False
        self._done.append(made)
        self._bind_parts(*made)
        return True

    def _bind_parts(self, value: g.GraphExpr, fact: Fact) -> None:
        """Bind an expression, what is in it first, and each part of a tuple."""
        value = self._flat(value)
        info = value.struct_info
        if not isinstance(info, TupleStructInfo):
            self._bind(value, fact)
            return
        whole = self._variable(info)
        self._append(whole, value)
        for k in range(len(info)):
            self._bind(g.TupleGetItem(whole, k), fact)

    def _flat(self, value: g.GraphExpr) -> g.GraphExpr:
        """Return an expression whose calls are of variables and constants."""
        if isinstance(value, g.TupleGetItem):
            return g.TupleGetItem(self._named(value.tuple_value), value.index)
        if isinstance(value, g.GraphCall):
            args = [self._named(arg) for arg in value.args]
            if any(a is not b for a, b in zip(args, value.args, strict=True)):
                return value.with_(args=tuple(args))
        return value

    def _named(self, value: Any) -> Any:
        """Return a part of an expression, bound to a variable if it is a call."""
        if isinstance(value, g.Tuple):
            return g.Tuple(self._named(part) for part in value.elements)
        if not isinstance(value, (g.GraphCall, g.TupleGetItem)):
            return value
        flat = self._flat(value)
        var = self._variable(value.struct_info)
        self._append(var, flat)
        return var

    def _call(self) -> bool:
        """Bind the call of another function of the module; say whether there was one."""
        names = [*self._graphs.functions]
        if not names:
            return False
        name = self._rng.choice(names)
        func = self._graphs.functions[name]
        assert isinstance(func, Function)
        args: list[g.GraphExpr] = []
        for param in func.params:
            fitting = [v for v in self._values if _fits(v, param.struct_info)]
            if not fitting:
                return False
            args.append(self._rng.choice(fitting).expr)
        if not _agree(func.params, args):
            return False
        known = result_of(
            g.GraphCall(GlobalVar(name), args, struct_info=OBJECT), self._graphs.functions
        )
        call = g.GraphCall(GlobalVar(name), args, struct_info=known)
        self._unpack(call, self._graphs.facts[name])
        return True

    def _unpack(self, value: g.GraphExpr, facts: Facts) -> None:
        """Bind a value, and the parts of what is a tuple."""
        if isinstance(facts, Fact):
            self._bind(value, facts)
            return
        whole = self._variable(value.struct_info)
        self._append(whole, value)
        for k, part in enumerate(facts):
            self._unpack(g.TupleGetItem(whole, k), part)

    def _bind(self, value: g.GraphExpr, fact: Fact) -> None:
        var = self._variable(value.struct_info)
        self._append(var, value)
        self._values.append(Value(var, fact))

    def _append(self, var: g.GraphVar, value: g.GraphExpr) -> None:
        self._bindings.append(g.VarBinding(var, value))
        self._used.update(node for node in walk(value) if isinstance(node, g.GraphVar))

    def _variable(self, info: StructInfo) -> g.GraphVar:
        local = self._in_dataflow and self._rng.random() < 0.9
        self._count += 1
        return (g.DataflowVar if local else g.GraphVar)(f"v{self._count}", info)


def _same(x: Value, y: Value) -> bool:
    return x.dtype == y.dtype and str(x.shape) == str(y.shape)


def _fits(value: Value, wanted: StructInfo) -> bool:
    """Say whether a value may be passed to a parameter of another function."""
    assert isinstance(wanted, TensorStructInfo)
    assert wanted.shape is not None
    if wanted.dtype != value.info.dtype or wanted.ndim != value.info.ndim:
        return False
    if value.is_float and (value.fact.bound > PASSED.bound or value.fact.error > PASSED.error):
        return False
    if not value.is_float and value.fact.bound > 17:
        return False
    pairs = zip(wanted.shape, value.shape, strict=True)
    return all(isinstance(n, Var) or str(n) == str(m) for n, m in pairs)


def _agree(params: Sequence[g.GraphVar], args: Sequence[g.GraphExpr]) -> bool:
    """Say whether arguments agree on the symbolic sizes of parameters, and lengths are some."""
    sizes: dict[PrimExpr, PrimExpr] = {}
    for param, arg in zip(params, args, strict=True):
        wanted, given = param.struct_info, arg.struct_info
        assert isinstance(wanted, TensorStructInfo)
        assert isinstance(given, TensorStructInfo)
        for n, m in zip(wanted.shape or (), given.shape or (), strict=True):
            if not isinstance(n, Var):
                continue
            if str(sizes.setdefault(n, m)) != str(m):
                return False
            length = most(m)
            if n.name in LENGTHS and (length is None or not 3 <= length <= LONGEST):
                return False
    return True


def _is_moderate(value: g.GraphExpr, fact: Fact) -> bool:
    """Say whether a result is neither too large, nor too inexact, nor in too many dimensions."""
    info = value.struct_info
    infos = info.elements if isinstance(info, TupleStructInfo) else (info,)
    for part in infos:
        if not isinstance(part, TensorStructInfo) or part.shape is None or part.dtype is None:
            return False
        largest = LARGEST if part.dtype.is_float else 1000 * LARGEST
        if str(part.dtype) == "int8":
            largest = 100
        if fact.bound > largest or fact.error > LEAST_EXACT or part.ndim > 6:
            return False
        count = 1
        for n in part.shape:
            constant = most(n)
            count *= 4 if constant is None else max(constant, 1)
        if count > MOST_ELEMENTS:
            return False
    return True


# ----------------------------------------------------------------------------------- the check


def check(seed: int, *, guard_pages: bool = True) -> None:
    """Compile and call one random graph in several ways; AssertionError where a result differs."""
    graph = graph_of(seed)
    verify_well_formed(graph.mod)
    forms = {"the default pipeline": default_pipeline()(graph.mod)}
    if seed % 5 == 3:
        forms["default schedules"] = scheduled(forms["the default pipeline"])
    if seed % 4 == 0:
        forms["legalized operators"] = LegalizeOps()(graph.mod)
    for name, mod in forms.items():
        executable = codegen.vm_build(mod, TARGET, default_schedules=False, guard_pages=guard_pages)
        machine = codegen.VirtualMachine(executable, codegen.cpu())
        for call in range(2):
            inputs = graph.inputs(call)
            compare(machine["main"](*inputs), expected(graph, inputs), graph.facts, name)


def graph_of(seed: int) -> OperatorGraph:
    """Return the graph of a seed."""
    return operator_graph(seed, 3 + seed % 19)


def expected(graph: OperatorGraph, inputs: list[Any]) -> Any:
    """Return what a graph means for arguments."""
    return interpreted(LegalizeOps()(graph.mod), inputs)


def interpreted(mod: IRModule, inputs: list[Any]) -> Any:
    """Return what a module gives for arguments."""
    with np.errstate(all="ignore"):
        return interpret_graph(mod, "main", *(x.copy() for x in inputs))


def scheduled(mod: IRModule) -> IRModule:
    """Return a module with default schedules of all of its kernels, however small."""
    kernels = {name: func for name, func in mod.prim_funcs().items() if can_be_scheduled(func)}
    made = default_schedules().schedules_of(kernels, as_target(TARGET))
    return IRModule({**mod.functions, **made}, mod.attrs)


def compare(result: Any, wanted: Any, facts: Facts, name: str) -> None:
    """Check a result against another one, part by part."""
    if not isinstance(facts, Fact):
        assert len(result) == len(wanted) == len(facts), name
        for part, other, fact in zip(result, wanted, facts, strict=True):
            compare(part, other, fact, name)
        return
    array = np.asarray(result.numpy() if hasattr(result, "numpy") else result)
    assert array.dtype == wanted.dtype, f"{name}: dtype {array.dtype}, not {wanted.dtype}"
    assert array.shape == wanted.shape, f"{name}: shape {array.shape}, not {wanted.shape}"
    np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=facts.error, err_msg=name)


def explained(seed: int) -> str:
    """Return a graph, and the first pass of the pipeline that changes its results."""
    graph = graph_of(seed)
    mod = graph.mod
    for step in default_pipeline().passes:
        before, mod = mod, step(mod)
        for call in range(2):
            inputs = graph.inputs(call)
            legal = LegalizeOps()(mod)
            try:
                found = interpreted(legal, inputs)
                compare(found, expected(graph, inputs), graph.facts, step.name)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
                head = f"# {step.name}: {type(error).__name__}: {error}"
                return "\n".join([head, "# before:", before.script(), "# after:", mod.script()])
    return f"{graph.mod.script()}\n# every pass keeps what the interpreter gives"


class Operators(Fuzzer):
    """Graphs compiled without fusion, by the default pipeline, and with default schedules.

    They are compared with the interpreter on the formulas of the operators. A failure is printed
    with the pass that changes the results.
    """

    batch = 10

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        check(case)
        return {}

    def described(self, case: int, outcome: Outcome, lines: Sequence[str]) -> str:
        return explained(case)
