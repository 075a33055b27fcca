"""Checking lowering step by step: what a program computes must not change from pass to pass.

`check_lowering` interprets a program as it is, again after every pass of `codegen.lower.PASSES`,
and runs it as machine code with guard pages around its arrays; what all of them leave in the arrays
must agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from codegen.errors import CodegenError
from codegen.lower import PASSES
from codegen.target import Target, as_target
from tensorir import IRModule, PrimFunc, verify_well_formed
from tensorir.interp import InterpreterError, interpret
from tensorir.nodes.expr import Call, GlobalVar
from tensorir.rewriting.visit import walk

MACHINE_CODE = "machine code"
"""The last step, after all passes."""
INEXACT = frozenset(
    (
        *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "rsqrt", "erf", "sigmoid"),
        *("tanh", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh"),
        *("atanh", "pow", "atan2", "hypot"),
    )
)
"""Functions of which machine code gives an approximation of its own."""

Arguments = Sequence[NDArray[Any] | float]


@dataclass(frozen=True)
class Steps:
    """What was checked."""

    interpreted: tuple[str, ...]
    """The passes that changed something and after which the program was interpreted."""
    refusal: str = ""
    """Why the program has no compiled form, if it has none."""


class LoweringFault(AssertionError):
    """A pass, or what comes after the passes, does not keep what a program means."""

    def __init__(
        self, step: str, what: str, detail: str, before: str = "", after: str = ""
    ) -> None:
        shown = "".join(
            f"\n{when} {step}:\n{text}"
            for when, text in (("before", before), ("after", after))
            if text
        )
        super().__init__(f"{step}: {what}: {detail}{shown}")
        self.step = step
        self.what = f"{step}: {what}"
        self.detail = detail


def check_lowering(
    program: PrimFunc | IRModule,
    arguments: Arguments,
    target: str | Target = "llvm",
    *,
    rtol: float = 0.0,
    machine_code: bool = True,
    tolerated: Collection[str] = (),
) -> Steps:
    """Compare what a program computes before and after each pass, and as machine code.

    `arguments` are those of `main` or of the only function; they are left as they are. Results of
    the passes must be equal bit for bit, a NaN like any other; so must those of machine code,
    which runs with `tir.no_contraction`, unless the program calls a function that is `INEXACT`:
    then they may differ by `rtol` of the greatest value. A program that lowering or emission
    refuses with CodegenError is checked up to there. Faults after a pass that are `tolerated`, as
    in `unroll: not well-formed`, are passed over.

    Raises LoweringFault naming the step, with the program before and after it.
    """
    functions = _functions(program)
    name = "main" if "main" in functions else next(iter(functions))
    expected = interpreted(IRModule(functions), arguments, name)
    exact = not any(
        isinstance(node, Call)
        and not isinstance(node.op, GlobalVar)
        and node.op.short_name in INEXACT
        for func in functions.values()
        for node in walk(func.body)
    )
    done = []
    current = functions
    try:
        with as_target(target):
            for step, run in PASSES:
                lowered = _lowered(step, run, current)
                if any(lowered[key] is not func for key, func in current.items()):
                    done.append(step)
                    try:
                        _check_step(step, current, lowered, arguments, name, expected)
                    except LoweringFault as fault:
                        if fault.what not in tolerated:
                            raise
                current = lowered
        if machine_code:
            _check_machine_code(functions, arguments, name, target, expected, 0 if exact else rtol)
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
        before = _script(functions)
        raise LoweringFault(step, type(error).__name__, str(error), before) from error


def _check_step(
    step: str,
    before: dict[str, PrimFunc],
    after: dict[str, PrimFunc],
    arguments: Arguments,
    name: str,
    expected: Arguments,
) -> None:
    texts = _script(before), _script(after)
    module = IRModule(after)
    try:
        verify_well_formed(module)
    except Exception as error:
        raise LoweringFault(step, "not well-formed", str(error), *texts) from error
    try:
        actual = interpreted(module, arguments, name)
    except Exception as error:
        raise LoweringFault(step, "the interpreter fails", str(error), *texts) from error
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
    before = _script(functions)
    actual = copied(arguments)
    try:
        module = codegen.build(IRModule(functions), target, guard_pages=True)
        module[name](*actual)
    except CodegenError:
        raise
    except Exception as error:
        what = type(error).__name__
        raise LoweringFault(MACHINE_CODE, what, str(error), before) from error
    if difference := first_difference(functions[name], actual, expected, rtol):
        raise LoweringFault(MACHINE_CODE, "another result", difference, before)


def _script(functions: dict[str, PrimFunc]) -> str:
    if len(functions) == 1:
        return next(iter(functions.values())).script()
    return IRModule(functions).script()


def interpreted(
    program: IRModule, arguments: Arguments, name: str, refuse_undefined: bool = False
) -> Arguments:
    """Return copies of the arguments as the interpreter leaves them."""
    result = copied(arguments)
    interpret(program, *result, func_name=name, refuse_undefined=refuse_undefined)
    return result


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
            got, wanted = _wide(got), _wide(wanted)
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


def _wide(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Return the values of bfloat16 numbers."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


__all__ = [
    "INEXACT",
    "MACHINE_CODE",
    "Arguments",
    "InterpreterError",
    "LoweringFault",
    "Steps",
    "check_lowering",
    "copied",
    "first_difference",
    "interpreted",
]
