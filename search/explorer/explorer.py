"""`Explorer`: a schedule to look at and to change, in a notebook or as a page.

The state is here, in Python: the trace, the program after each step, the estimate.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from codegen.target import Target, as_target
from schedule import Schedule, Trace
from search.builder import LocalBuilder
from search.context import TuneContext
from search.errors import ArgumentError, TuningError
from search.explorer.accesses import block_accesses
from search.explorer.component import Component
from search.explorer.machine_view import machine_view
from search.explorer.program_view import Data, program_view
from search.explorer.steps import Replay, steps_of
from search.runner import LocalRunner
from search.runner.measure_candidate import MeasureCandidate
from search.runs.measuring import built_inputs, runner_input
from tensorir.errors import IRTypeError, TensorIRError
from tensorir.function import IRModule, PrimFunc


class Explorer(Component):
    """A schedule, step by step, with its costs; its decisions can be changed.

    `sch` is not changed: the explorer replays its trace. `target` is the machine for the estimate,
    the assembly and measurements, by default the current target, else this machine with one core.
    `func_name` is the function to show, by default the one that the schedule works on.

    A page has no edits. Raises ArgumentError for a schedule without tensor functions or an unknown
    function.
    """

    scripts = ("elements.js", "explorer.js")
    styles = ("theme.css", "explorer.css")

    def __init__(
        self,
        sch: Schedule,
        target: str | Mapping[str, Any] | Target | None = None,
        func_name: str | None = None,
    ) -> None:
        if not isinstance(sch, Schedule):
            raise IRTypeError(
                f"an explorer shows a Schedule, got {type(sch).__name__}: {reprlib.repr(sch)}"
            )
        self.initial: IRModule = sch.initial_mod
        given = Target.current() if target is None else target
        self.target = as_target("llvm -num-cores=1" if given is None else given)
        self.title = self.func_name = _checked_name(sch, func_name)
        self._replay = Replay.of(self.initial, sch.trace)
        self._views: dict[PrimFunc, Data] = {}
        self._details: dict[PrimFunc, Data] = {}
        self.measured: dict[PrimFunc, float] = {}
        """The measured seconds of a call, by program."""
        self._processes: tuple[LocalBuilder, LocalRunner] | None = None

    @property
    def trace(self) -> Trace:
        """The trace with the present decisions."""
        return self._replay.sch.trace

    @property
    def sch(self) -> Schedule:
        """A schedule with the present decisions."""
        return self._replay.sch.copy()

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.trace.insts)

    def program(self, step: int | None = None) -> PrimFunc:
        """Return the function after a number of steps, by default after all of them."""
        mods = self._replay.mods
        if step is not None and not 0 <= step < len(mods):
            raise ArgumentError(f"there is no step {step}; steps are 0 to {len(mods) - 1}")
        return mods[-1 if step is None else step].prim_func(self.func_name)

    # ------------------------------------------------------------------------------------ changing

    def decide(self, step: int, decision: Any) -> None:
        """Change the decision of a step; later decisions are repaired where they do not fit.

        `step` is the position of the instruction in the trace. Raises ArgumentError for a step
        without a decision, ScheduleError or TraceError if a later step is refused then; the
        explorer is unchanged.
        """
        trace = self.trace
        inst = trace.insts[step] if 0 <= step < len(trace.insts) else None
        if inst is None or inst not in trace.decisions:
            steps = [k for k, one in enumerate(trace.insts) if one in trace.decisions]
            raise ArgumentError(f"step {step} has no decision; steps with decisions are {steps}")
        changed = trace.with_decision(inst, decision, remove_postproc=False)
        self._replay = Replay.of(self.initial, changed)

    def measure(self, step: int | None = None) -> float:
        """Build the program after a number of steps, and return the seconds of a call.

        It runs in another process, which is ended after 30 s. Raises TuningError if the program
        cannot be built or fails.
        """
        func = self.program(step)
        mod = IRModule({"main": func})
        context = TuneContext(mod, target=self.target)
        if self._processes is None:
            self._processes = LocalBuilder(), LocalRunner()
        builder, runner = self._processes
        entry = runner_input(context, MeasureCandidate(Schedule(mod)), None)
        with built_inputs(builder, context.known_target, [(mod, entry)]) as entries:
            if not entries:
                raise TuningError("the program does not build; codegen.build(mod) has the reason")
            (future,) = runner.run([entries[0]])
            result = future.result().checked()
        if result.median_secs is None:
            raise TuningError(f"the program was not measured: {result.error_msg}")
        self.measured[func] = result.median_secs
        return result.median_secs

    # --------------------------------------------------------------------------------------- data

    def data(self, *, whole: bool = False, brief: bool = False) -> Data:
        """Return what is drawn, as data for JSON.

        `steps` are those of `steps_of`, and `shown` has the position in `programs` of the program
        before the first step and after each step. Of `programs` the last one is there, a
        `program_view`, the others are None; with `whole`, all are there, and the last one has its
        `machine_view` and its `block_accesses`. With `brief`, the others have no estimates.
        """
        positions: dict[PrimFunc, int] = {}
        programs = [self.program(step) for step in range(len(self) + 1)]
        shown = [positions.setdefault(func, len(positions)) for func in programs]
        last = self.program()
        views: list[Data | None] = [None] * len(positions)
        if whole:
            views = [program_view(func, None) if brief else self._view(func) for func in positions]
        views[shown[-1]] = {**self._view(last), **(self.details() if whole else {})}
        return {
            "title": self.func_name,
            "target": str(self.target),
            "steps": steps_of(self._replay),
            "programs": views,
            "shown": shown,
            "python": self.trace.script(),
            "json": json.dumps(self.trace.as_json()),
        }

    def view(self, step: int) -> Data:
        """Return the `program_view` of the program after a number of steps."""
        return self._view(self.program(step))

    def _view(self, func: PrimFunc) -> Data:
        known = self._views.get(func)
        if known is None:
            known = self._views[func] = program_view(func, self.target)
        measured = self.measured.get(func)
        return known if measured is None else {**known, "seconds": measured}

    def details(self, step: int | None = None) -> Data:
        """Return `machine` and `accesses` of the program after a number of steps.

        They are its `machine_view` and its `block_accesses`. For a program that cannot be compiled
        `machine` has `error`, the reason.
        """
        func = self.program(step)
        known = self._details.get(func)
        if known is None:
            try:
                machine = machine_view(func, self.target)
            except TensorIRError as error:
                machine = {"asm": [], "omitted": 0, "facts": {}, "error": str(error)}
            known = {"machine": machine, "accesses": block_accesses(func)}
            self._details[func] = known
        return known

    # ------------------------------------------------------------------------------------ answering

    def answer(self, request: Data) -> Data:
        """Perform a request of the browser.

        Requests are `{"do": "decide", "step": k, "decision": d}`, and `{"do": what, "step": k}`
        with `view`, `details` or `measure`, for the program after k steps. The answers have `data`,
        `view`, `details` or `seconds`.
        """
        what, step = request.get("do"), int(request["step"])
        if what == "decide":
            self.decide(step, request["decision"])
            return {"data": self.data()}
        if what == "view":
            return {"view": self.view(step)}
        if what == "details":
            return {"details": self.details(step)}
        if what == "measure":
            return {"seconds": self.measure(step)}
        raise ArgumentError(f"unknown request {what!r}")

    def __repr__(self) -> str:
        return f"<Explorer of {self.func_name}: {self.trace.summary()}>"


def _checked_name(sch: Schedule, func_name: str | None) -> str:
    known = sorted(sch.mod.prim_funcs())
    if func_name is None:
        chosen = sch.func_working_on
        if chosen is None:
            raise ArgumentError(f"give the function to explore: func_name, one of {known}")
        return chosen.name_hint
    if func_name not in known:
        raise ArgumentError(f"unknown function {func_name!r}; the schedule has {known}")
    return func_name
