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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

import codegen
from benchmarks.forked_runs import Outcome
from benchmarks.fuzz.campaign import Fuzzer, Note
from benchmarks.fuzz.graph_writer import (
    Functions,
    RandomGraph,
    Writer,
    call_of,
    is_tensor,
    random_arguments,
)
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
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule
from tensorir.interp import InterpreterError
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes import ops
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax.function import Function
from tensorir.relax.relations import Fits, fits, is_base_of
from tensorir.relax.struct_info import (
    VOID,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.transform import DataflowUseInplaceCalls, default_pipeline

__all__ = ["LIBRARY", "check", "random_arguments", "random_graph"]

DTYPES: Final = ("float32", "int32", "float64", "int8", "float16", "bool", "uint8", "int64")
SHAPES: Final[tuple[tuple[int, ...], ...]] = ((4,), (2, 3), (0, 3), (1,), (33,), (2, 3, 4), ())
COUNTER: Final = TensorStructInfo((), "int32")


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
            maker = (_Loop if rng.random() < 0.3 else _Maker)(module)
            module.add(f"part{k}", maker.function(f"part{k}", steps // 3 + 1))
    module.add("main", _Maker(module).function("main", steps))
    return RandomGraph(IRModule(module.functions), seed)


class _Module(Functions):
    """The functions written so far, and the options of all of them."""

    def __init__(self, rng: random.Random, packed: bool, failing: bool, chained: bool) -> None:
        super().__init__(rng)
        self.chained = chained
        self.failing = failing
        self.kernels = [kind for kind in BOOL_KERNELS if packed or kind != "packed"]

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


class _Maker(Writer):
    """Makes a function of calls of tensor functions and library functions."""

    _module: _Module

    def __init__(self, module: _Module) -> None:
        super().__init__(module)
        rng = self._rng
        if module.chained:
            self.local, self.latest = 0.95, 2
        self._kinds = [
            TensorStructInfo(rng.choice(SHAPES), rng.choice(DTYPES))
            for _ in range(rng.randint(1, 4))
        ]
        if rng.random() < 0.5:
            n, dtype = Var("n", "int64"), rng.choice(DTYPES)
            self._kinds += [TensorStructInfo((n, 3), dtype), TensorStructInfo((n * 2,), dtype)]
            self._sizes = [n]

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

    def _result(self) -> g.GraphExpr:
        whole = self._values[-1] if self._module.chained else self._whole(2)
        return whole if self._rng.random() < 0.5 else self._bind(whole)

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
            other = self._rng.choice([v for v in self._values if is_tensor(v.struct_info)])
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


class _Loop(_Maker):
    """Makes a function that calls itself: its first parameter counts down to 0."""

    def function(self, name: str, steps: int) -> Function:
        """Return a function of about `steps` calls a round."""
        self._module.loops.add(name)
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
        self._bind(call_of(name, args, kind))
        blocks.append(g.BindingBlock(self._bindings))
        again = g.SeqExpr.rebuilt(blocks, self._like(kind))
        result = g.GraphVar("result", kind)
        chosen = g.VarBinding(result, g.If(count, again, g.SeqExpr([], x)))
        return self._made(name, [count, x], g.SeqExpr([g.BindingBlock([chosen])], result))


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
            expected = interpret_graph(graph.mod, "main", *inputs, library=LIBRARY)
        except (IRTypeError, IRValueError, InterpreterError, Refusal):
            assert failing, "the interpreter raised"
            # An unused call of a pure function is dropped, and its error with it.
            with suppress(IRTypeError, IRValueError, LibraryFunctionError):
                machine["main"](*inputs)
            continue
        result = machine["main"](*inputs)
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
