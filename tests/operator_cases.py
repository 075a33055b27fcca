"""Operators against NumPy: many cases in one module, which is built once.

The first kernel of each operator gets a default schedule and is compiled, as in any build. The
others are interpreted where they are small, and else compiled as they are written and without
optimisation. Operators of one, two and three dimensions count as one: `max_pool1d` and
`max_pool2d`.

check([
    Case("add", lambda x, y: op.add(x, y), np.add, a, b),
    Case("add, any n", lambda x, y: op.add(x, y), np.add, a, b, shapes=[("n", 3), (3,)]),
])
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import pytest

import codegen
import search  # noqa: F401 (offers the default schedules)
from codegen.history import default_schedules, is_small
from tensorir import relax
from tensorir.function import IRModule, PrimFunc
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import Var
from tensorir.relax.call_graph import callees
from tensorir.transform import LegalizeOps, pass_context

Shape = Sequence["int | str"]


class Case:
    """A call of operators, what NumPy says of it, and the arrays that both get.

    `shapes` has names where a dimension is symbolic. The call gets graph values,
    and by a parameter called `sizes` the variables by their names. Results may differ by `rtol` and
    `atol`.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        expected: Callable[..., Any],
        *inputs: Any,
        shapes: Sequence[Shape] | None = None,
        rtol: float = 1e-6,
        atol: float = 1e-6,
    ) -> None:
        self.name = name
        self.call = call
        self.expected = expected
        self.inputs = [np.array(value, order="C") for value in inputs]
        self.shapes = shapes
        self.rtol = rtol
        self.atol = atol

    def parameters(self) -> tuple[list[relax.Var], dict[str, Var]]:
        sizes: dict[str, Var] = {}
        shapes = [a.shape for a in self.inputs] if self.shapes is None else self.shapes
        params = []
        for k, (shape, array) in enumerate(zip(shapes, self.inputs, strict=True)):
            dims = [
                sizes.setdefault(n, Var(n, "int64")) if isinstance(n, str) else n for n in shape
            ]
            params.append(relax.Var(f"x{k}", relax.TensorStructInfo(dims, str(array.dtype))))
        return params, sizes

    def compare(self, result: Any) -> None:
        with np.errstate(all="ignore"):
            expected = self.expected(*self.inputs)
        if isinstance(expected, (tuple, list)):
            assert len(expected) == len(result), f"{len(result)} results for {len(expected)}"
            for one, array in zip(expected, result, strict=True):
                self._compare(np.asarray(one), np.asarray(array))
        else:
            self._compare(np.asarray(expected), np.asarray(result))

    def _compare(self, expected: np.ndarray, result: np.ndarray) -> None:
        assert expected.shape == result.shape, f"shape {result.shape}, not {expected.shape}"
        assert expected.dtype == result.dtype, f"dtype {result.dtype}, not {expected.dtype}"
        np.testing.assert_allclose(result, expected, rtol=self.rtol, atol=self.atol)


class FirstOfEach:
    """Default schedules of kernels, one of each operator."""

    def __init__(self) -> None:
        self._optimized: set[str] = set()
        self._scheduled: set[str] = set()

    def is_first(self, functions: Mapping[str, PrimFunc]) -> bool:
        """Return True for kernels to optimise: of a new operator, or to be scheduled."""
        operators = {operator_of(name) for name in functions}
        found = not operators <= self._optimized or any(
            self._is_to_schedule(name, func) for name, func in functions.items()
        )
        self._optimized |= operators
        return found

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: codegen.Target
    ) -> Mapping[str, PrimFunc]:
        found: dict[str, PrimFunc] = {}
        for name, func in functions.items():
            if self._is_to_schedule(name, func):
                self._scheduled.add(operator_of(name))
                # One at a time starts no other process.
                found.update(default_schedules().schedules_of({name: func}, target))
        return found

    def _is_to_schedule(self, name: str, func: PrimFunc) -> bool:
        return operator_of(name) not in self._scheduled and not is_small(func)


def operator_of(kernel: str) -> str:
    """Return the operator of a kernel: `max_pool` of `max_pool2d7`."""
    return re.sub(r"[123]d|\d+$", "", kernel)


FIRST_OF_EACH = FirstOfEach()


def kernels_of(cases: Sequence[Case]) -> IRModule:
    """Return a module with a function for each case."""
    builder = relax.BlockBuilder()
    for k, case in enumerate(cases):
        params, sizes = case.parameters()
        with builder.function(f"case{k}", params):
            with builder.dataflow():
                named = {"sizes": sizes} if "sizes" in signature(case.call).parameters else {}
                result = builder.emit_output(case.call(*params, **named))
            builder.emit_func_output(result)
    return LegalizeOps()(builder.get())


def check(cases: Sequence[Case]) -> None:
    """Build all cases, run each, and say which differ from what is expected.

    What passes leave is not verified after each of them: the tests of passes do that.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (pass_context, sys.modules["codegen.lower"]):
            patch.setattr(module, "VERIFY", False)
        _check(cases)


def _check(cases: Sequence[Case]) -> None:
    mod = kernels_of(cases)
    kernels = mod.prim_funcs()
    by_level: dict[int | None, dict[str, Case]] = {2: {}, 0: {}, None: {}}
    for k, case in enumerate(cases):
        own = {name: kernels[name] for name in callees(mod[f"case{k}"]) if name in kernels}
        small = all(map(is_small, own.values())) and "packed" not in str(mod[f"case{k}"])
        by_level[2 if FIRST_OF_EACH.is_first(own) else None if small else 0][f"case{k}"] = case
    failures = []
    for level, chosen in by_level.items():
        if not chosen:
            continue
        part = IRModule({**kernels, **{name: mod[name] for name in chosen}}, mod.attrs)
        run = partial(interpret_graph, part) if level is None else compiled(part, level)
        for name, case in chosen.items():
            try:
                case.compare(run(name, *case.inputs))
            except AssertionError as error:
                failures.append(f"{case.name}: {error}")
    assert not failures, "\n".join(failures)


def compiled(mod: IRModule, level: int) -> Callable[..., Any]:
    """Return a function that runs a graph function by its name."""
    target = f"llvm -opt-level={level}"
    built = codegen.vm_build(mod, target, database=FIRST_OF_EACH, default_schedules=False)
    vm = codegen.VirtualMachine(built, codegen.cpu())
    return lambda name, *inputs: vm[name](*inputs)
