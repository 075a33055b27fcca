"""Checking lowering step by step: the results of a program must not change from pass to pass.

`check_lowering` interprets a program as it is, again after every pass of `codegen.lower.PASSES`,
and runs it as machine code with guard pages around its arrays; the arrays must then agree bit for
bit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from benchmarks.fuzz.campaign import Failure
from codegen.errors import CodegenError
from codegen.lower import PASSES
from codegen.target import Target, as_target
from tensorir import IRModule, PrimFunc, parse, structural_equal, verify_well_formed
from tensorir.errors import TensorIRError
from tensorir.interp import interpret
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Call, GlobalVar, IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import For, ForKind, Stmt
from tensorir.rewriting.visit import Rewriter, collect_vars, substitute, walk
from tensorir.simplify import simplify

MACHINE_CODE = "machine code"
"""The last step, after all passes."""
INEXACT = frozenset(
    (
        *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "rsqrt", "erf", "sigmoid"),
        *("tanh", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh"),
        *("atanh", "pow", "atan2", "hypot"),
    )
)
"""Functions that machine code approximates in its own way."""

Arguments = Sequence[NDArray[Any] | float]


@codegen.register_func("fuzz.bits", override=True)
def bits(number: int) -> int:
    """Return a number made of another one, as a library function does for its caller."""
    return (int(number) * 5) % 1009 - 500


class IllDefined(Exception):
    """The result of a program depends on an order that is left open, or does not exist."""


class LoweringFault(Failure):
    """A pass, or the code generator behind the passes, changes the result of a program."""

    def __init__(self, step: str, what: str, detail: str, *texts: str) -> None:
        pairs = zip(("before", "after"), texts, strict=False)
        shown = "".join(f"\n{when} {step}:\n{text}" for when, text in pairs)
        super().__init__(f"{step}: {what}", f"{detail}{shown}")


@dataclass(frozen=True)
class Steps:
    """The steps that were checked."""

    interpreted: tuple[str, ...]
    """The passes that changed something and after which the program was interpreted."""
    refusal: str = ""
    """The error of a program that cannot be compiled; empty for others."""


@dataclass(frozen=True)
class Case:
    """A program as script text, with values for the variables in the shapes of its parameters."""

    text: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    data: int = 0
    """The seed of the contents of the arrays."""
    target: str = "llvm -num-cores=2"

    def module(self) -> IRModule:
        """Return the program, whose entry is `main`."""
        program = parse(textwrap.dedent(self.text))
        return IRModule({"main": program}) if isinstance(program, PrimFunc) else program

    def check(self) -> Steps:
        """Check the lowering of the program, and that printing it and reading it changes nothing.

        Raises LoweringFault, or IllDefined for a program without a definite result.
        """
        module = self.module()
        if not structural_equal(parse(module.script()), module):
            raise Failure("the printed program reads as another one", "")
        arguments = arguments_of(module.prim_func("main"), self.sizes, self.data)
        if not is_well_defined(module, arguments):
            raise IllDefined
        return check_lowering(module, arguments, self.target, rtol=1e-4)


# ------------------------------------------------------------------------------------ the check


def check_lowering(
    program: PrimFunc | IRModule,
    arguments: Arguments,
    target: str | Target = "llvm",
    *,
    rtol: float = 0.0,
) -> Steps:
    """Compare the results of a program before and after each pass, and of its machine code.

    `arguments` are those of `main` or of the only function, and stay unchanged. Results of the
    passes must be equal bit for bit, a NaN like any other; so must those of machine code, which
    runs with `tir.no_contraction`, unless the program calls a function that is `INEXACT`: then they
    may differ by `rtol` of the greatest value. A program that lowering or emission refuses with
    CodegenError is checked up to there.

    Raises LoweringFault naming the step, with the program before and after it.
    """
    current = _functions(program)
    name = "main" if "main" in current else next(iter(current))
    before = current
    expected = interpreted(IRModule(current), arguments, name)
    done = []
    try:
        with as_target(target):
            for step, run in PASSES:
                lowered = _lowered(step, run, current)
                if any(lowered[key] is not func for key, func in current.items()):
                    done.append(step)
                    _check_step(step, current, lowered, arguments, name, expected)
                current = lowered
        _check_machine_code(before, arguments, name, target, expected, rtol)
    except CodegenError as refusal:
        return Steps(tuple(done), str(refusal))
    return Steps(tuple(done))


def _functions(program: PrimFunc | IRModule) -> dict[str, PrimFunc]:
    """Return functions whose compiled form rounds where the interpreter rounds."""
    if isinstance(program, PrimFunc):
        functions = {"main": program.with_attr("global_symbol", "main")}
    else:
        functions = {n: f for n, f in program.functions.items() if isinstance(f, PrimFunc)}
    return {name: func.with_attr("tir.no_contraction", True) for name, func in functions.items()}


def _lowered(step: str, run: Any, functions: dict[str, PrimFunc]) -> dict[str, PrimFunc]:
    try:
        return {key: run(func) for key, func in functions.items()}
    except CodegenError:
        raise
    except Exception as error:
        text = IRModule(functions).script()
        raise LoweringFault(step, type(error).__name__, str(error), text) from error


def _check_step(
    step: str,
    before: dict[str, PrimFunc],
    after: dict[str, PrimFunc],
    arguments: Arguments,
    name: str,
    expected: Arguments,
) -> None:
    texts = IRModule(before).script(), IRModule(after).script()
    module, what = IRModule(after), "not well-formed"
    try:
        verify_well_formed(module)
        what = "the interpreter fails"
        actual = interpreted(module, arguments, name)
    except Exception as error:
        raise LoweringFault(step, what, str(error), *texts) from error
    if difference := first_difference(after[name], actual, expected):
        raise LoweringFault(step, "another result", difference, *texts)


def _check_machine_code(
    functions: dict[str, PrimFunc],
    arguments: Arguments,
    name: str,
    target: str | Target,
    expected: Arguments,
    rtol: float,
) -> None:
    text, actual = IRModule(functions).script(), copied(arguments)
    is_inexact = any(
        isinstance(node, Call)
        and not isinstance(node.op, GlobalVar)
        and node.op.short_name in INEXACT
        for func in functions.values()
        for node in walk(func.body)
    )
    try:
        module = codegen.build(IRModule(functions), target, guard_pages=True)
        module[name](*actual)
    except CodegenError:
        raise
    except Exception as error:
        raise LoweringFault(MACHINE_CODE, type(error).__name__, str(error), text) from error
    tolerance = rtol if is_inexact else 0.0
    if difference := first_difference(functions[name], actual, expected, tolerance):
        raise LoweringFault(MACHINE_CODE, "another result", difference, text)


def interpreted(
    program: IRModule, arguments: Arguments, name: str, refuse_undefined: bool = False
) -> Arguments:
    """Return copies of the arguments as the interpreter leaves them."""
    result = copied(arguments)
    interpret(program, *result, func_name=name, refuse_undefined=refuse_undefined)
    return result


def is_well_defined(program: IRModule, arguments: Arguments, name: str = "main") -> bool:
    """Return True if the interpreter accepts a program, and its result depends on no open order.

    The program runs a second time with the iterations of `parallel` and `vectorized` loops in
    reverse; both runs must agree, and no memory may be read before it is written.
    """
    changed = IRModule(
        {
            key: func.with_(body=_Reversed()(func.body))
            for key, func in program.functions.items()
            if isinstance(func, PrimFunc)
        }
    )
    try:
        one = interpreted(program, arguments, name, refuse_undefined=True)
        other = interpreted(changed, arguments, name)
    except (TensorIRError, ArithmeticError, ValueError):
        return False
    return not first_difference(program.prim_func(name), other, one)


class _Reversed(Rewriter):
    """Reverses the iterations of loops whose order is left open."""

    def rewrite_For(self, node: For) -> Stmt:
        node = self.generic(node)
        if node.kind not in (ForKind.PARALLEL, ForKind.VECTORIZED):
            return node
        one = const(1, node.loop_var.dtype)
        mirrored = node.min + (node.min + node.extent - one - node.loop_var)
        body = substitute(node.body, {node.loop_var: mirrored})
        return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, body)


# ----------------------------------------------------------------------------------- arguments


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


def copied(arguments: Arguments) -> Arguments:
    """Return copies of arrays, with their strides."""
    return [_copied(a) if isinstance(a, np.ndarray) else a for a in arguments]


def _copied(array: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(array.base, np.ndarray):
        return array.copy()
    memory = array.base.copy()
    first = array.ctypes.data - array.base.ctypes.data
    return np.ndarray(array.shape, array.dtype, memory, first, array.strides)


def first_difference(
    func: PrimFunc, actual: Arguments, expected: Arguments, rtol: float = 0.0
) -> str:
    """Return which element of which argument differs first, as a sentence; empty if none does."""
    for param, got, wanted in zip(func.params, actual, expected, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None or not isinstance(got, np.ndarray) or not isinstance(wanted, np.ndarray):
            continue
        if buffer.dtype == "bfloat16":
            got, wanted = ((a.astype(np.uint32) << 16).view(np.float32) for a in (got, wanted))
        for place in np.argwhere(~_agree(got, wanted, rtol)):
            at = tuple(int(k) for k in place)
            return f"{buffer.name}{list(at)} is {got[at]}, expected {wanted[at]}"
    return ""


def _agree(got: NDArray[Any], wanted: NDArray[Any], rtol: float) -> NDArray[np.bool_]:
    if got.dtype.kind != "f":
        return got == wanted
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted))
    same |= np.isnan(got) & np.isnan(wanted)
    if rtol and wanted.size:
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = finite.max() if finite.size else 0.0
        with np.errstate(invalid="ignore"):
            same |= np.abs(got - wanted) <= rtol * scale
    return same
