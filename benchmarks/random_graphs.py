"""Random modules with graph functions, for tests of transforms and of the executor.

    graph = random_graph(seed=7)
    expected = interpret_graph(graph.mod, "main", *graph.inputs(0), library=LIBRARY)

Graphs have shared inputs, calls that overwrite an argument, unused results, constants, tuples,
arrays without elements, several dtypes, calls of other graph functions, `if`, symbolic sizes and
library functions. All arithmetic is exact, so results are compared bit by bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir import parse
from tensorir.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax.function import Function
from tensorir.relax.struct_info import VOID, StructInfo, TensorStructInfo, TupleStructInfo
from tensorir.relax.visit import merged_blocks

Shape = tuple[PrimExpr | int, ...]

DTYPES: Final = ("float32", "int32", "float64", "int8")
SHAPES: Final[tuple[tuple[int, ...], ...]] = ((4,), (2, 3), (0, 3), (1,), (33,), (2, 3, 4))

KERNELS: Final = {
    # name: (buffers and scalars, statement); X are those read, Y those written.
    "add": ("X0 X1 Y0", "Y0[{i}] = X0[{i}] + X1[{i}]"),
    "twice": ("X0 Y0", "Y0[{i}] = X0[{i}] + X0[{i}]"),
    "negate": ("X0 Y0", "Y0[{i}] = {zero} - X0[{i}]"),
    "fill": ("Y0", "Y0[{i}] = {one}"),
    "both": ("X0 X1 Y0 Y1", "Y0[{i}] = X0[{i}] + X1[{i}]; Y1[{i}] = X0[{i}] - X1[{i}]"),
    "increment": ("Y0", "Y0[{i}] = Y0[{i}] + {one}"),
    "accumulate": ("Y0 X0", "Y0[{i}] = Y0[{i}] + X0[{i}]"),
    "add_scalar": ("X0 Y0 k", "Y0[{i}] = X0[{i}] + T.cast(k, {dtype!r})"),
}


def _add_to(a: Any, b: Any, out: Any) -> None:
    np.add(np.asarray(a), np.asarray(b), out=np.asarray(out))


def _doubled(a: Any) -> NDArray[Any]:
    return np.asarray(a) + np.asarray(a)


LIBRARY: Final[dict[str, Callable[..., Any]]] = {
    "random_graphs.add_to": _add_to,
    "random_graphs.doubled": _doubled,
}
"""Library functions that graphs call; `add_to` writes to its last argument."""


def kernel_name(kind: str, shape: tuple[int | str, ...], dtype: str) -> str:
    """Return the name of a tensor function in a module."""
    return "_".join([kind, *map(str, shape), dtype])


@cache
def kernel(kind: str, shape: tuple[int | str, ...], dtype: str) -> PrimFunc:
    """Return a tensor function; an extent that is a str is a symbolic size."""
    params, body = KERNELS[kind]
    rank = len(shape)
    sizes = sorted({n for n in shape if isinstance(n, str)})
    names = params.split()
    head = ", ".join("k: T.int64" if p == "k" else f"{p.lower()}_: T.handle" for p in names)
    extents = ", ".join(map(str, shape)) + ("," if rank == 1 else "")
    index = ", ".join(f"v{d}" for d in range(rank)) if rank else "()"
    zero, one = (f"T.{dtype}({v})" for v in (0, 1))
    lines = [
        "@T.prim_func",
        f"def {kernel_name(kind, shape, dtype)}({head}):",
        "    T.func_attr({'tir.noalias': True})",
    ]
    lines += [f"    {n} = T.int64()" for n in sizes]
    lines += [
        f"    {p} = T.match_buffer({p.lower()}_, ({extents}), {dtype!r})" for p in names if p != "k"
    ]
    loops = ", ".join(f"i{d}" for d in range(rank))
    lines += [f"    for {loops} in T.grid({', '.join(map(str, shape))}):"]
    lines += ["        with T.block('compute'):"]
    lines += [f"            v{d} = T.axis.spatial({shape[d]}, i{d})" for d in range(rank)]
    text = body.format(i=index, zero=zero, one=one, dtype=dtype)
    lines += [f"            {statement}" for statement in text.split("; ")]
    func = parse("\n".join(lines))
    assert isinstance(func, PrimFunc)
    return func.without_attr("global_symbol")


@dataclass(frozen=True)
class RandomGraph:
    """A module, its entry, and how to call it."""

    mod: IRModule
    seed: int
    entry: str = "main"

    def inputs(self, seed: int) -> list[NDArray[Any]]:
        """Return arguments of `main`; symbolic sizes differ between seeds."""
        rng = np.random.default_rng(seed)
        size = int(rng.integers(0, 6))
        func = self.mod[self.entry]
        assert isinstance(func, Function)
        return [_array(param.struct_info, size, rng) for param in func.params]

    def __repr__(self) -> str:
        return f"random_graph({self.seed})"


def _array(info: StructInfo, size: int, rng: np.random.Generator) -> NDArray[Any]:
    assert isinstance(info, TensorStructInfo)
    assert info.shape is not None
    assert info.dtype is not None
    shape = [n.value if isinstance(n, IntImm) else size for n in info.shape]
    return rng.integers(0, 2 if info.dtype == "bool" else 4, shape).astype(info.dtype.to_numpy())


def random_graph(
    seed: int,
    steps: int = 12,
    *,
    symbolic: bool = True,
    library: bool = True,
    nested: bool = True,
    branches: bool = True,
) -> RandomGraph:
    """Return a random module whose `main` has about `steps` calls.

    The options leave out symbolic sizes, library functions, calls of other graph functions, `if`.
    """
    rng = random.Random(seed)
    functions: dict[str, BaseFunc] = {}
    inner: list[tuple[str, Function]] = []
    if nested and rng.random() < 0.4:
        for k in range(rng.randint(1, 2)):
            maker = _Maker(rng, functions, list(inner), symbolic=False, library=library)
            name = f"part{k}"
            inner.append((name, maker.function(name, steps // 3 + 1, branches)))
            functions[name] = inner[-1][1].without_attr("global_symbol")
    maker = _Maker(rng, functions, inner, symbolic, library)
    functions["main"] = maker.function("main", steps, branches)
    return RandomGraph(IRModule(functions), seed)


class _Maker:
    """Makes one function."""

    def __init__(
        self,
        rng: random.Random,
        functions: dict[str, BaseFunc],
        inner: list[tuple[str, Function]],
        symbolic: bool,
        library: bool,
    ) -> None:
        self._rng = rng
        self._functions = functions
        self._inner = inner
        self._library = library
        self._size = Var("n", "int64")
        self._symbolic = symbolic and rng.random() < 0.4
        self._values: list[g.GraphVar] = []
        self._bindings: list[g.Binding] = []
        self._count = 0
        self._in_dataflow = False

    def function(self, name: str, steps: int, branches: bool) -> Function:
        """Return a function of about `steps` calls."""
        rng = self._rng
        params = [
            g.GraphVar(f"x{k}", self._info(self._shape(), rng.choice(DTYPES)))
            for k in range(rng.randint(1, 3))
        ]
        if self._symbolic:
            params.append(g.GraphVar("s", self._info((self._size, 3), "float32")))
        flag = g.GraphVar("flag", self._info((), "bool"))
        params.append(flag)
        self._values = [p for p in params if p is not flag]
        blocks: list[g.BindingBlock] = []
        while steps > 0:
            count = rng.randint(1, steps)
            steps -= count
            if rng.random() < 0.5:
                blocks.append(self._dataflow(count))
            else:
                blocks.append(self._plain(count))
            if branches and rng.random() < 0.3:
                blocks.append(self._branch(flag))
        result = self._result(blocks)
        has_effects = any(
            isinstance(b.value, g.GraphCall) and isinstance(b.value.op, g.ExternFunc)
            for block in blocks
            for b in _all_bindings(block)
        )
        calls_impure = any(
            isinstance(b.value, g.GraphCall)
            and isinstance(b.value.op, GlobalVar)
            and not self._functions[b.value.op.name].is_pure  # type: ignore[attr-defined]
            for block in blocks
            for b in _all_bindings(block)
        )
        return Function(
            params,
            g.SeqExpr(merged_blocks(blocks), result),
            is_pure=not (has_effects or calls_impure),
            attrs={"global_symbol": name},
        )

    def _result(self, blocks: list[g.BindingBlock]) -> g.GraphExpr:
        picked = [self._rng.choice(self._values) for _ in range(self._rng.randint(1, 3))]
        if len(picked) == 1:
            return picked[0]
        whole = g.Tuple(picked)
        if self._rng.random() < 0.5:
            return whole
        var = g.GraphVar("result", whole.struct_info)
        blocks.append(g.BindingBlock([g.VarBinding(var, whole)]))
        return var

    def _plain(self, count: int) -> g.BindingBlock:
        self._bindings = []
        for _ in range(count):
            self._step()
        return g.BindingBlock(self._bindings)

    def _dataflow(self, count: int) -> g.BindingBlock:
        """Return a block in which some variables are local; those are forgotten behind it."""
        self._bindings, self._in_dataflow = [], True
        for _ in range(count):
            self._step()
        self._in_dataflow = False
        self._values = [v for v in self._values if not isinstance(v, g.DataflowVar)]
        return g.DataflowBlock(self._bindings)

    def _branch(self, flag: g.GraphVar) -> g.BindingBlock:
        outside = list(self._values)
        kind = self._rng.choice(outside).struct_info
        branches = []
        for _ in range(2):
            self._values = list(outside)
            block = self._plain(self._rng.randint(1, 3))
            same = [v for v in self._values if v.struct_info is kind]
            branches.append(g.SeqExpr([block] if block.bindings else [], same[-1]))
        self._values = outside
        self._bindings = []
        self._bind(g.If(flag, branches[0], branches[1]), kind)
        return g.BindingBlock(self._bindings)

    def _step(self) -> None:
        rng = self._rng
        choice = rng.random()
        x = rng.choice(self._values)
        info = x.struct_info
        if isinstance(info, TupleStructInfo):
            if len(info):
                k = rng.randrange(len(info))
                self._bind(g.TupleGetItem(x, k), info.elements[k])
            return
        assert isinstance(info, TensorStructInfo)
        if choice < 0.55:
            self._kernel_call(x, info)
        elif choice < 0.62:
            others = [rng.choice(self._values) for _ in range(rng.randint(1, 2))]
            self._bind(g.Tuple([x, *others]))
        elif choice < 0.68:
            self._bind(x, info)
        elif choice < 0.74:
            self._values.append(x)
            self._constant(info)
        elif choice < 0.78:
            var = self._var(info)
            self._bindings.append(g.MatchCast(var, x, info))
        elif choice < 0.88 and self._library:
            self._library_call(x, info)
        elif self._inner:
            self._graph_call()

    def _kernel_call(self, x: g.GraphVar, info: TensorStructInfo) -> None:
        rng = self._rng
        kind = rng.choice(list(KERNELS))
        callee = self._kernel(kind, info)
        if kind == "increment":
            self._bind(calls.call_tir_inplace(callee, [x], 0, info))
        elif kind == "accumulate":
            self._bind(calls.call_tir_inplace(callee, [x, self._like(info)], 0, info))
        elif kind == "both":
            self._bind(calls.call_tir(callee, [x, self._like(info)], [info, info]))
        elif kind == "add_scalar":
            self._bind(calls.call_tir(callee, [x], info, [rng.randint(0, 3)]))
        else:
            reads = {"add": 2, "fill": 0}.get(kind, 1)
            self._bind(calls.call_tir(callee, [x, self._like(info)][:reads], info))

    def _library_call(self, x: g.GraphVar, info: TensorStructInfo) -> None:
        choice = self._rng.random()
        if choice < 0.6:
            args = [x, self._like(info)]
            self._bind(calls.call_dps_packed("random_graphs.add_to", args, info))
        elif choice < 0.8 or self._in_dataflow:
            self._bind(calls.call_pure_packed("random_graphs.doubled", x, sinfo_args=info))
        else:
            self._bind(calls.call_packed("random_graphs.doubled", x, sinfo_args=info))

    def _graph_call(self) -> None:
        name, func = self._rng.choice(self._inner)
        if self._in_dataflow and not func.is_pure:
            return
        args: list[g.GraphExpr] = []
        for param in func.params:
            assert isinstance(param.struct_info, TensorStructInfo)
            args.append(self._like(param.struct_info))
        self._bind(g.GraphCall(GlobalVar(name), args, struct_info=func.ret_struct_info))

    def _like(self, info: TensorStructInfo) -> g.GraphExpr:
        """Return a value of this kind: one that exists, else a constant."""
        same = [v for v in self._values if _text(v.struct_info) == _text(info)]
        if same and self._rng.random() < 0.85:
            return self._rng.choice(same)
        if info.static_shape is None:
            return same[0]
        return self._constant_of(info)

    def _constant(self, info: TensorStructInfo) -> None:
        if info.static_shape is not None:
            self._bind(self._constant_of(info), info)

    def _constant_of(self, info: TensorStructInfo) -> g.Constant:
        assert info.static_shape is not None
        assert info.dtype is not None
        rng = np.random.default_rng(self._rng.randrange(1 << 30))
        high = 2 if info.dtype == "bool" else 4
        return g.Constant(rng.integers(0, high, info.static_shape).astype(info.dtype.to_numpy()))

    def _kernel(self, kind: str, info: TensorStructInfo) -> GlobalVar:
        assert info.shape is not None
        assert info.dtype is not None
        shape = tuple(n.value if isinstance(n, IntImm) else "n" for n in info.shape)
        name = kernel_name(kind, shape, str(info.dtype))
        self._functions.setdefault(name, kernel(kind, shape, str(info.dtype)))
        return GlobalVar(name)

    def _bind(self, value: g.GraphExpr, info: StructInfo | None = None) -> None:
        var = self._var(value.struct_info if info is None else info)
        self._bindings.append(g.VarBinding(var, value))

    def _var(self, info: StructInfo) -> g.GraphVar:
        local = self._in_dataflow and self._rng.random() < 0.7
        self._count += 1
        var = (g.DataflowVar if local else g.GraphVar)(f"v{self._count}", info)
        self._values.append(var)
        return var

    def _shape(self) -> Shape:
        return self._rng.choice(SHAPES)

    @staticmethod
    def _info(shape: Shape, dtype: str) -> TensorStructInfo:
        return TensorStructInfo(shape, dtype)


def _all_bindings(block: g.BindingBlock) -> list[g.Binding]:
    found: list[g.Binding] = []
    for binding in block.bindings:
        found.append(binding)
        if isinstance(binding.value, g.If):
            for branch in (binding.value.true_branch, binding.value.false_branch):
                found += [b for inner in branch.blocks for b in _all_bindings(inner)]
    return found


def _text(info: StructInfo) -> tuple[object, ...]:
    """Return what two tensors have to agree on to be added."""
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        return (VOID, info)
    return (info.dtype, *(n.value if isinstance(n, IntImm) else n for n in info.shape))
