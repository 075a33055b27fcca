"""Operators against NumPy: many cases in one module, which is built once.

Kernels get default schedules as in any build, the first one of each operator: all of them would
take minutes. `python -m benchmarks.default_choices` schedules all, and says how long that takes.

check([
    Case("add", lambda x, y: op.add(x, y), np.add, a, b),
    Case("add, any n", lambda x, y: op.add(x, y), np.add, a, b, shapes=[("n", 3), (3,)]),
])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

import codegen
import search  # noqa: F401 (offers the default schedules)
from codegen.history import is_small
from codegen.schedules import default_schedules
from tensorir import relax
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import Var
from tensorir.transform import LegalizeOps

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
                self._compare(np.asarray(one), array.numpy())
        else:
            self._compare(np.asarray(expected), result.numpy())

    def _compare(self, expected: np.ndarray, result: np.ndarray) -> None:
        assert expected.shape == result.shape, f"shape {result.shape}, not {expected.shape}"
        assert expected.dtype == result.dtype, f"dtype {result.dtype}, not {expected.dtype}"
        np.testing.assert_allclose(result, expected, rtol=self.rtol, atol=self.atol)


class FirstOfEach:
    """Default schedules of the first kernel of each operator that a process builds."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def schedules_of(
        self, functions: Mapping[str, PrimFunc], target: codegen.Target
    ) -> Mapping[str, PrimFunc]:
        found: dict[str, PrimFunc] = {}
        for name, func in functions.items():
            operator = name.rstrip("0123456789")
            if operator not in self._seen and not is_small(func):
                self._seen.add(operator)
                # One at a time starts no other process.
                found.update(default_schedules().schedules_of({name: func}, target))
        return found


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
    """Build all cases in one module, run each, and say which differ from what is expected."""
    built = codegen.vm_build(
        kernels_of(cases), "llvm", database=FIRST_OF_EACH, default_schedules=False
    )
    vm = codegen.VirtualMachine(built, codegen.cpu())
    failures = []
    for k, case in enumerate(cases):
        try:
            case.compare(vm[f"case{k}"](*case.inputs))
        except AssertionError as error:
            failures.append(f"{case.name}: {error}")
    assert not failures, "\n".join(failures)
