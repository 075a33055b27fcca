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
from benchmarks.fuzz.graph_writer import Functions, RandomGraph, Writer, random_arguments
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
    most,
    random_motif,
    random_step,
)
from codegen.history import can_be_scheduled, default_schedules
from codegen.target import as_target
from tensorir import verify_well_formed
from tensorir.function import IRModule
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax.struct_info import TensorStructInfo, TupleStructInfo
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

INTEGERS: Final = Fact(17.0)
"""The fact of each other argument."""

EXAMPLES: Final = (0, 1, 1, 2, 2, 3, 4)
"""Values of other symbolic sizes."""


@dataclass(frozen=True)
class OperatorGraph(RandomGraph):
    """A random graph, and what its results may differ by."""

    facts: Facts

    def inputs(self, seed: int) -> list[Any]:
        """Return arguments of `main`; numbers of examples are from 0 to 4, seldom 0."""
        rng = np.random.default_rng(seed)
        sizes: dict[Var, int] = {}
        for n in dict.fromkeys(n for param in self.main.params for n in param.struct_info.shape):
            if isinstance(n, Var):
                few = rng.integers(3, LONGEST + 1) if n.name in LENGTHS else rng.choice(EXAMPLES)
                sizes[n] = int(few)
        made = random_arguments(self.main, rng, sizes, 17)
        # from -1 to 1, so that sums of few are exact
        return [(x / 8 - 1).astype(x.dtype) if x.dtype.kind == "f" else x for x in made]


def operator_graph(seed: int, steps: int = 10) -> OperatorGraph:
    """Return a random module whose `main` has about `steps` calls of operators."""
    rng = random.Random(seed)
    module = _Module(rng)
    if rng.random() < 0.4:
        for k in range(rng.randint(1, 2)):
            module.write(f"part{k}", steps // 2 + 1, PASSED)
    module.write("main", steps, GIVEN)
    return OperatorGraph(IRModule(module.functions), seed, module.facts["main"])


class _Module(Functions):
    """The functions written so far, and the choices that they share."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.facts: dict[str, Facts] = {}
        """What is known of the result of each function."""
        kinds = KINDS[rng.choice([*KINDS, "images", "images"])]
        dtypes = ["float32"] * 6 + ["float64", "int32", "bool"]
        self.kinds = [
            (rng.choice(kinds), rng.choice(dtypes) if k else "float32")
            for k in range(rng.randint(1, 3))
        ]
        self.symbolic = rng.random() < 0.6
        self.examples = rng.randint(1, 3)

    def write(self, name: str, steps: int, given: Fact) -> None:
        """Add a function, and what is known of its result."""
        maker = _Maker(self, given)
        func = maker.function(name, steps)
        self.add(name, func)
        self.facts[name] = maker.facts_of(func.body.body)


class _Maker(Writer):
    """Makes a function of calls of operators, with a known fact of each value."""

    _module: _Module
    dataflow = 0.75
    local = 0.9
    branches = 0.25
    latest = 2

    def __init__(self, module: _Module, given: Fact) -> None:
        super().__init__(module)
        self._given = given
        self._facts: dict[g.GraphVar, Facts] = {}
        self._used: set[g.GraphExpr] = set()
        self._planned: list[Step] = []
        self._done: list[tuple[g.GraphExpr, Fact]] = []
        """The calls of the current block."""

    def _params(self) -> list[g.GraphVar]:
        rng, module = self._rng, self._module
        number = Var("n", "int64") if module.symbolic else IntImm("int64", module.examples)
        lengths = {name: Var(name, "int64") for name in LENGTHS}
        self._kinds = [
            TensorStructInfo((number, *(lengths.get(n, n) for n in shape)), dtype)
            for shape, dtype in module.kinds
        ]
        infos = [rng.choice(self._kinds) for _ in range(rng.randint(1, 3))]
        infos.append(TensorStructInfo((), "bool"))
        params = [g.GraphVar(f"x{k}", info) for k, info in enumerate(infos)]
        for param, info in zip(params, infos, strict=True):
            self._facts[param] = self._given if info.dtype.is_float else INTEGERS
        return params

    def _result(self) -> g.GraphExpr:
        """Return what was computed last, or a tuple of what nothing else takes."""
        tensors = [value.expr for value in self._tensors()]
        if self._rng.random() < 0.25:
            return tensors[-1]
        unused = [v for v in tensors if v not in self._used][-6:]
        others = [*unused, self._rng.choice(tensors)]
        self._rng.shuffle(others)
        return g.Tuple([tensors[-1], g.Tuple(others)])

    def _tensors(self) -> list[Value]:
        facts = [(var, self._facts[var]) for var in self._values]
        return [Value(var, fact) for var, fact in facts if isinstance(fact, Fact)]

    def facts_of(self, value: g.GraphExpr) -> Facts:
        """Return what is known of the result of an expression that is no call of an operator."""
        match value:
            case g.Tuple():
                return tuple(map(self.facts_of, value.elements))
            case g.If():
                first, second = value.true_branch.body, value.false_branch.body
                return _joined(self.facts_of(first), self.facts_of(second))
            case g.Constant():
                return Fact(float(np.abs(value.data.astype(float)).max(initial=0)))
            case g.GraphCall():
                return self._module.facts[value.op.name]  # type: ignore[union-attr]
        assert isinstance(value, g.GraphVar)
        return self._facts[value]

    # ---------------------------------------------------------------------------------------- steps

    def _step(self) -> None:
        if self._module.graphs and self._rng.random() < 0.08:
            self._graph_call()
            return
        for _ in range(20):
            made = self._random_call()
            if made is not None and _is_moderate(*made):
                self._done.append(made)
                self._bind(*made)
                return

    def _random_call(self) -> tuple[g.GraphExpr, Fact] | None:
        rng, tensors = self._rng, self._tensors()
        if self._done and rng.random() < 0.05:
            return rng.choice(self._done)
        x = tensors[-1]
        if not self._planned:
            if rng.random() < 0.4 or x.dtype == "bool" or not x.shape:
                x = rng.choice(tensors)
            self._planned = random_motif(rng) if rng.random() < 0.3 else [random_step(rng)]
        return self._planned.pop(0)(Operands(rng, tensors), x)

    def _end_block(self) -> None:
        made = [b.var for b in self._bindings if isinstance(self._facts.get(b.var), Fact)]
        for var in made:
            if isinstance(var, g.DataflowVar) and (var is made[-1] or var not in self._used):
                self._bind(var)
        self._done.clear()

    def _suits(self, var: g.GraphVar, wanted: TensorStructInfo, sizes: dict[Var, PrimExpr]) -> bool:
        if not super()._suits(var, wanted, sizes):
            return False
        fact, limit = self._facts[var], PASSED if wanted.dtype.is_float else INTEGERS
        assert isinstance(fact, Fact)
        lengths = [most(m) for n, m in sizes.items() if n.name in LENGTHS]
        is_known = all(length is not None and 3 <= length <= LONGEST for length in lengths)
        return is_known and fact.bound <= limit.bound and fact.error <= limit.error

    def _bind(self, value: g.GraphExpr, facts: Facts | None = None) -> g.GraphVar:
        """Bind an expression, what is in it first, and each part of a tuple."""
        known = self.facts_of(value) if facts is None else facts
        value = self._flat(value)
        self._used.update(node for node in walk(value) if isinstance(node, g.GraphVar))
        var = super()._bind(value)
        self._facts[var] = known
        info = value.struct_info
        if isinstance(info, TupleStructInfo):
            parts = (known,) * len(info) if isinstance(known, Fact) else known
            self._facts[var] = parts
            for k, part in enumerate(parts):
                self._bind(g.TupleGetItem(var, k), part)
        return var

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
        var = super()._bind(self._flat(value))
        self._values.remove(var)
        return var


def _joined(first: Facts, second: Facts) -> Facts:
    """Return what holds for either of two results."""
    if isinstance(first, Fact):
        assert isinstance(second, Fact)
        return first.joined(second)
    assert isinstance(second, tuple)
    return tuple(_joined(a, b) for a, b in zip(first, second, strict=True))


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
