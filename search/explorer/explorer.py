"""`Explorer`: a schedule to look at and to change, in a notebook or as a page.

The state is here, in Python: the trace, the program after each step, the estimate. A script draws
data (`Explorer.data`), in a notebook (`widget`) and on a page (`save`).
"""

from __future__ import annotations

import base64
import html
import json
import os
import zlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from codegen.target import Target, as_target
from schedule import Schedule, Trace
from search.builder import LocalBuilder
from search.context import TuneContext
from search.errors import ArgumentError, TuningError
from search.explorer.accesses import block_accesses
from search.explorer.machine_view import machine_view
from search.explorer.program_view import Data, program_view
from search.explorer.steps import Replay, steps_of
from search.runner import LocalRunner
from search.runner.measure_candidate import MeasureCandidate
from search.runs.measuring import built_inputs, runner_input
from tensorir.errors import TensorIRError
from tensorir.function import IRModule, PrimFunc
from tensorir.replaced_file import replaced_file

ASSETS: Final = files("search.explorer") / "assets"
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>:root {{ color-scheme: light dark; }} body {{ margin: 8px; }}
{styles}</style></head>
<body><div id="explorer"></div>
<script type="text/plain" id="data">{data}</script>
<script type="module">{script}
const packed = atob(document.getElementById("data").textContent);
const bytes = new Blob([Uint8Array.from(packed, (c) => c.charCodeAt(0))]).stream();
const unpacked = new Response(bytes.pipeThrough(new DecompressionStream("deflate")));
show(document.getElementById("explorer"), await unpacked.json());
</script></body></html>
"""


class Explorer:
    """A schedule, step by step, with its costs; its decisions can be changed.

    `sch` is not changed: the explorer replays its trace. `target` is the machine for the estimate,
    the assembly and measurements, by default the current target, else this machine with one core.
    `func_name` is the function to show, by default the one that the schedule works on.

    A notebook shows it, as a widget if the extra `notebook` is installed, else as a page without
    edits. Raises ArgumentError for a schedule without tensor functions or an unknown function.
    """

    def __init__(
        self,
        sch: Schedule,
        target: str | Mapping[str, Any] | Target | None = None,
        func_name: str | None = None,
    ) -> None:
        self.initial: IRModule = sch.initial_mod
        given = Target.current() if target is None else target
        self.target = as_target("llvm -num-cores=1" if given is None else given)
        self.func_name = _checked_name(sch, func_name)
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

    def data(self, *, whole: bool = False) -> Data:
        """Return what is drawn, as data for JSON.

        `steps` are those of `steps_of`, and `shown` has the position in `programs` of the program
        before the first step and after each step. Of `programs` the last one is there, a
        `program_view`, the others are None; with `whole`, all are there, and the last one has its
        `machine_view` and its `block_accesses`.
        """
        positions: dict[PrimFunc, int] = {}
        programs = [self.program(step) for step in range(len(self) + 1)]
        shown = [positions.setdefault(func, len(positions)) for func in programs]
        last = self.program()
        views = [self._view(func) if whole or func is last else None for func in positions]
        if whole:
            views[-1] = {**self._view(last), **self.details()}
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

    # -------------------------------------------------------------------------------------- showing

    def page(self) -> str:
        """Return a page that shows the schedule without Python: a slider, but no edits.

        Its data are compressed, since the programs of neighbouring steps have most lines in common.
        """
        data = base64.b64encode(zlib.compress(json.dumps(self.data(whole=True)).encode(), 9))
        script = (ASSETS / "explorer.js").read_text(encoding="utf-8")
        return _PAGE.format(
            title=self.func_name,
            styles=(ASSETS / "explorer.css").read_text(encoding="utf-8"),
            data=data.decode(),
            script=script,
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the `page` to a file and return its path."""
        with replaced_file(path) as file:
            file.write(self.page().encode())
        return Path(path)

    def widget(self) -> Any:
        """Return the explorer as a widget; ImportError without anywidget, which names the extra."""
        from search.explorer.widget import explorer_widget  # noqa: PLC0415 - needs an extra

        return explorer_widget(self)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        try:
            shown = self.widget()
        except ImportError:
            return {"text/html": self._repr_html_(), "text/plain": repr(self)}
        return shown._repr_mimebundle_(**options)

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" title="{html.escape(repr(self)[1:-1])}" '
            f'srcdoc="{html.escape(self.page())}" '
            'style="width:100%;height:46em;border:1px solid #8888"></iframe>'
        )

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
