"""A case of the fuzzer of lowering: a program, the sizes of its arguments, and how to run it."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from benchmarks.lowering_steps import Arguments, Steps, check_lowering
from benchmarks.well_defined import is_well_defined
from tensorir import IRModule, PrimFunc, parse, structural_equal
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import collect_vars, substitute
from tensorir.simplify import simplify


@codegen.register_func("fuzz_lowering.bits")
def bits(number: int) -> int:
    """Return a number made of another one, as a library function does for its caller."""
    return (int(number) * 5) % 1009 - 500


class IllDefined(Exception):
    """What a program means depends on what is left open, or is nothing at all."""


@dataclass(frozen=True)
class Case:
    """A program as script text, with values for the variables in the shapes of its parameters."""

    text: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    data: int = 0
    """Seed of what the arrays hold."""
    target: str = "llvm -num-cores=2"

    def module(self) -> IRModule:
        """Return the program; what it is called by is `main`."""
        program = parse(textwrap.dedent(self.text))
        return IRModule({"main": program}) if isinstance(program, PrimFunc) else program

    def check(self, machine_code: bool = True, tolerated: Collection[str] = ()) -> Steps:
        """Check the lowering of the program, and that printing it and reading it changes nothing.

        Raises LoweringFault, or IllDefined for a program that has not one meaning.
        """
        module = self.module()
        if not structural_equal(parse(module.script()), module):
            raise AssertionError("the printed program reads as another one")
        arguments = arguments_of(module["main"], self.sizes, self.data)
        if not is_well_defined(module, arguments):
            raise IllDefined
        return check_lowering(
            module,
            arguments,
            self.target,
            rtol=1e-4,
            machine_code=machine_code,
            tolerated=tolerated,
        )


def arguments_of(func: PrimFunc, sizes: Mapping[str, int], seed: int) -> Arguments:
    """Return arguments for a function, variables in shapes and strides having the given values.

    Arrays have edge values among small ones: products and sums of few floats are exact.
    """
    rng = np.random.default_rng(seed)
    arguments: list[NDArray[Any] | float] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            arguments.append(_random_values(rng, param.dtype, (1,))[0])
        else:
            arguments.append(_random_array(rng, buffer, sizes))
    return arguments


def _random_array(
    rng: np.random.Generator, buffer: Buffer, sizes: Mapping[str, int]
) -> NDArray[Any]:
    shape = tuple(_number(extent, sizes) for extent in buffer.shape)
    if not buffer.strides:
        return _random_values(rng, buffer.dtype, shape)
    strides = [_number(stride, sizes) for stride in buffer.strides]
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    first = -sum(min(r, 0) for r in reach) if all(shape) else 0
    last = first + sum(max(r, 0) for r in reach) if all(shape) else 0
    memory = _random_values(rng, buffer.dtype, (last + 1,))
    steps = tuple(stride * memory.itemsize for stride in strides)
    return np.ndarray(shape, memory.dtype, memory, first * memory.itemsize, steps)


def _number(node: PrimExpr, sizes: Mapping[str, int]) -> int:
    known: dict[Var, Any] = {v: const(sizes[v.name], v.dtype) for v in collect_vars(node)}
    value = simplify(substitute(node, known))
    assert isinstance(value, IntImm)
    return value.value


def _random_values(
    rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...]
) -> NDArray[Any]:
    kind = dtype.to_numpy()
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(kind)
    if dtype.is_floating:
        values = rng.integers(-12, 13, shape) / 4
        special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 4096.0], shape)
        mixed = np.where(rng.random(shape) < 0.06, special, values).astype(np.float32)
        if dtype == "bfloat16":
            return (mixed.view(np.uint32) >> 16).astype(kind)
        with np.errstate(over="ignore"):
            return mixed.astype(kind)
    info = np.iinfo(kind)
    small = rng.integers(-9 if info.min else 0, 10, shape)
    edges = rng.choice([int(info.min), int(info.max) >> 1, int(info.max) // 3], shape)
    return np.where(rng.random(shape) < 0.12, edges, small).astype(kind)
