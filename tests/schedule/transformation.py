"""Checks that every primitive must pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from schedule import Schedule, ScheduleError, Trace
from schedule.errors import describe
from tensorir import IRModule, PrimFunc, assert_structural_equal, parse
from tensorir.arith import Analyzer
from tensorir.interp import interpret, random_arguments
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import collect_vars, substitute, walk


def apply(
    before: str, call: Callable[[Schedule], object], after: str | None = None, *, seed: int = 0
) -> Schedule:
    """Apply `call` to a program and check everything that holds for accepted calls.

    The program is the expected one, computes the same, prints as text that reads back, and replays
    from the trace's JSON and from its Python text.
    """
    sch = scheduled(before, call, after)
    assert_computes_the_same(before, sch.mod, seed)
    return sch


def assert_computes_the_same(before: str, mod: IRModule, seed: int = 0) -> None:
    """Run a program and the module that it became, for some sizes if they are symbolic."""
    for sizes in SIZES if _symbols(parsed(before)) else SIZES[:1]:
        arguments, expected = _computed(before, seed, sizes)
        actual = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        interpret(mod, *actual)
        for got, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


parsed = lru_cache(maxsize=256)(parse)
"""Parse a text once; programs are immutable."""

SIZES = ((1, 1), (5, 7), (16, 20))
"""Values of the first and the second symbolic size of a program."""


@lru_cache(maxsize=64)
def _computed(text: str, seed: int, sizes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Return random arguments of a program, and what it makes of them."""
    func = parsed(text)
    symbols = _symbols(func)
    values = dict(zip(symbols, [*sizes, *sizes], strict=False))
    if symbols:
        rng = np.random.default_rng(seed)
        arguments = [_argument(func, param, values, rng) for param in func.params]
    else:
        arguments = random_arguments(func, seed)
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    interpret(func, *expected)
    return arguments, expected


def _symbols(func: PrimFunc) -> list[Var]:
    """Return the variables that are sizes of a program."""
    shapes = [size for buffer in func.buffer_map.values() for size in buffer.shape]
    scalars = [param for param in func.params if param not in func.buffer_map]
    return list(dict.fromkeys([*scalars, *(v for size in shapes for v in collect_vars(size))]))


def _argument(func: PrimFunc, param: Var, values: dict[Var, int], rng: Any) -> Any:
    buffer = func.buffer_map.get(param)
    if buffer is None:
        return values[param]
    known = {var: const(value, var.dtype) for var, value in values.items()}
    shape = [Analyzer().simplify(substitute(size, known)).value for size in buffer.shape]
    return rng.uniform(1, 2, shape).astype(buffer.dtype.to_numpy())


def scheduled(
    before: str, call: Callable[[Schedule], object], after: str | None = None
) -> Schedule:
    """Apply `call` to a program and check the result and the trace, but not what it computes."""
    func = parsed(before)
    sch = Schedule(func, debug_mask="all", seed=1)
    call(sch)
    if after is not None:
        assert_structural_equal(sch.mod["main"], parse(after))
    assert_structural_equal(parse(sch.mod.script()), sch.mod)
    assert_replays(sch, func)
    return sch


def assert_replays(sch: Schedule, func) -> None:
    """Check that the JSON of the trace rebuilds the program, and that its Python text is the same."""
    stored = json.dumps(sch.trace.as_json())
    replayed = Schedule(IRModule({"main": func}))
    Trace.from_json(json.loads(stored)).apply_to_schedule(replayed, remove_postproc=False)
    assert_structural_equal(replayed.mod, sch.mod)
    assert json.dumps(replayed.trace.as_json()) == stored
    assert Trace.from_python(sch.trace.script()).as_json() == sch.trace.as_json()


def assert_text_runs(sch: Schedule, func) -> None:
    """Check that the Python text of the trace, run as it stands, rebuilds the program."""
    written = Schedule(IRModule({"main": func}))
    names: dict[str, object] = {}
    exec(sch.trace.script(), names)
    names["apply_trace"](written)
    assert_structural_equal(written.mod, sch.mod)


def refused(
    before: str,
    call: Callable[[Schedule], object],
    code: str,
    words: str = "",
    marked: Sequence[str] | None = None,
) -> ScheduleError:
    """Check that the last primitive of `call` is refused with `code`, and changes nothing.

    `marked` describes the loops and blocks that the error points at, which must be nodes of the
    program, in order: `"block B"`, `"loop i"`.
    """
    sch = Schedule(parsed(before), debug_mask="all", seed=1)
    seen: dict[str, object] = {}

    class Watched:
        def __getattr__(self, name):
            attribute = getattr(sch, name)
            if not callable(attribute):
                return attribute

            def called(*args, **kwargs):
                seen["program"], seen["length"] = sch.mod["main"], len(sch.trace.insts)
                return attribute(*args, **kwargs)

            return called

    with pytest.raises(ScheduleError) as caught:
        call(Watched())
    error = caught.value
    assert error.code == code
    assert words in str(error)
    assert sch.mod["main"] is seen["program"]
    assert len(sch.trace.insts) == seen["length"]
    if marked is not None:
        assert locations(error, sch) == [*marked]
    return error


def locations(error: ScheduleError, sch: Schedule) -> list[str]:
    """Return the loops and blocks that an error marks, which must be nodes of the program."""
    present = {id(node) for node in walk(sch.mod["main"].body)}
    assert all(id(node) in present for node in error.locations)
    return [describe(node).replace("`", "").replace('"', "") for node in error.locations]
