"""Operators against NumPy: many cases in one module, which is built once.

check([
    Case("add", lambda x, y: op.add(x, y), np.add, a, b),
    Case("add, any n", lambda x, y: op.add(x, y), np.add, a, b, shapes=[("n", 3), (3,)]),
])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np

import codegen
from tensorir import relax
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


def check(cases: Sequence[Case]) -> None:
    """Build all cases in one module, run each, and say which differ from what is expected."""
    builder = relax.BlockBuilder()
    for k, case in enumerate(cases):
        params, sizes = case.parameters()
        with builder.function(f"case{k}", params):
            with builder.dataflow():
                named = {"sizes": sizes} if "sizes" in signature(case.call).parameters else {}
                result = builder.emit_output(case.call(*params, **named))
            builder.emit_func_output(result)
    kernels = LegalizeOps()(builder.get())
    built = codegen.vm_build(kernels, "llvm", default_schedules=False)
    vm = codegen.VirtualMachine(built, codegen.cpu())
    failures = []
    for k, case in enumerate(cases):
        try:
            case.compare(vm[f"case{k}"](*case.inputs))
        except AssertionError as error:
            failures.append(f"{case.name}: {error}")
    assert not failures, "\n".join(failures)
