"""Operations on a device mean what `tensorir.semantics` states, bit for bit, on vectors as well.

`test_semantics_sweep` has the operations, the values at which they change their behaviour, and the
comparison with the reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import test_semantics_sweep as sweep
from devices.ladder import OPENCL, needs_opencl
from kernels import elementwise_program, outputs_of

import codegen
from codegen.devices.compile import compile_lowered
from codegen.devices.module import GpuModule
from tensorir.function import PrimFunc
from tensorir.nodes import ops
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.stmt import For, ForKind
from tensorir.semantics import convert, evaluate

pytestmark = needs_opencl


def over_blocks(func: PrimFunc) -> PrimFunc:
    """Return an element-wise program with its loop bound to blocks of one thread."""
    loop = func.body
    assert isinstance(loop, For)
    axis = "blockIdx.x"
    binding = IterVar(None, Var(axis, loop.loop_var.dtype), IterVar.THREAD_INDEX, axis)
    return func.with_body(loop.with_(kind=ForKind.THREAD_BINDING, thread_binding=binding))


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return the comparison of the sweep, of what a device computes."""

    def run_on_device(
        builders: dict[Any, sweep.Build],
        dtypes: Sequence[DataType],
        rows: Sequence[tuple[Any, ...]],
    ) -> Iterator[tuple[str, Any, DataType, list[Any]]]:
        made: list[PrimExpr] = []

        def make(*operands: PrimExpr) -> list[PrimExpr]:
            made.extend(build(*operands) for build in builders.values())
            return made

        func = elementwise_program(make, [str(t) for t in dtypes], 8)
        module = GpuModule(compile_lowered({"f": over_blocks(func)}, OPENCL))
        device = codegen.device(OPENCL, optimize=False)
        columns = zip(zip(*rows, strict=True), dtypes, strict=True)
        arrays = [sweep.array(column, dtype) for column, dtype in columns]
        outputs = [codegen.array(x, device) for x in outputs_of(func, arrays)]
        module["f"](*(codegen.array(x, device) for x in arrays), *outputs)
        for op, node, output in zip(builders, made, outputs, strict=True):
            element = node.dtype.element
            yield "a device", op, element, sweep.bits_of(output.numpy(), element)

    monkeypatch.setattr(sweep, "run_everywhere", run_on_device)
    return sweep.check_everywhere


@pytest.mark.parametrize("name", ["bool", "int8", "uint32", "int64", "bfloat16", "float32"])
def test_casts_on_a_device(name: str, check: Callable[..., None]) -> None:
    dtype = DataType(name)
    targets = [t for t in sweep.INTEGERS + sweep.FLOATS if t is not dtype]
    builders = {t: (lambda x, t=t: ops.cast(t.with_lanes(x.dtype.lanes), x)) for t in targets}
    rows = [(v,) for v in sweep.inputs_of_casts(dtype)]
    check(builders, [dtype], rows, lambda t, v: convert(v, dtype, t))


@pytest.mark.parametrize("name", ["int8", "uint64"])
def test_integers_on_a_device(name: str, check: Callable[..., None]) -> None:
    dtype = DataType(name)
    pairs = [(a, b) for a, b in itertools.product(sweep.edges(dtype), repeat=2) if b]
    builders = {**sweep.ARITHMETIC, **sweep.COMPARISONS, **sweep.DIVISIONS}
    check(builders, [dtype, dtype], pairs, lambda op, a, b: evaluate(op, dtype, a, b))


@pytest.mark.parametrize("name", ["float16", "float64"])
def test_floats_on_a_device(name: str, check: Callable[..., None]) -> None:
    dtype = DataType(name)
    pairs = list(itertools.product(sweep.edges(dtype), repeat=2))
    builders = {**sweep.ARITHMETIC, **sweep.COMPARISONS, **sweep.FLOAT_DIVISIONS}
    builders |= {op: sweep.intrinsic(op) for op in ("fmod", "copysign", "nextafter")}
    check(builders, [dtype, dtype], pairs, lambda op, a, b: evaluate(op, dtype, a, b))


def test_ldexp_on_a_device(check: Callable[..., None]) -> None:
    dtype = DataType("float32")
    rows = list(itertools.product(sweep.edges(dtype), [0, 1, -24, 140, -1000, -(1 << 31)]))
    builders = {"ldexp": sweep.intrinsic("ldexp")}
    dtypes = [dtype, DataType("int32")]
    check(builders, dtypes, rows, lambda op, *row: evaluate(op, dtype, *row))
