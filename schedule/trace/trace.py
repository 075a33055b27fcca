"""Traces: records of the changes of a program, which can be replayed, stored and edited."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedule.errors import TraceError, TraceIndexError
from schedule.handles import BlockRV, LoopRV
from schedule.instruction import Instruction
from schedule.operands.operand import mapped, substituted, variables_of
from schedule.primitives.annotate import ENTER_COMPOSITE, EXIT_COMPOSITE
from schedule.trace.json_form import from_json, to_json
from schedule.trace.python_reader import from_python
from schedule.trace.python_text import python_function, python_lines
from tensorir.dialect import Dialect
from tensorir.errors import TensorIRError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import show_text, text_to_html
from tensorir.paths import as_path
from tensorir.replaced_file import replaced_file

if TYPE_CHECKING:
    from schedule.schedule import Schedule


DecisionProvider = Callable[[Instruction, Sequence[Any], Sequence[Any], Any], Any]

_POSTPROC = "EnterPostproc"


class Trace:
    """Instructions in order, and the decisions of the sampling instructions.

    `decisions` maps an instruction (by identity) to what it decided: the index of a candidate, the
    factors of a tile, the index of a loop.
    """

    def __init__(
        self,
        insts: Sequence[Instruction] = (),
        decisions: Mapping[Instruction, Any] | None = None,
    ) -> None:
        self.insts: list[Instruction] = list(insts)
        self.decisions: dict[Instruction, Any] = dict(decisions or {})

    # ---------------------------------------------------------------------------------- building

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add an instruction at the end."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> tuple[Instruction, Any] | None:
        """Remove the last instruction and return it with its decision; None if there is none."""
        if not self.insts:
            return None
        inst = self.insts.pop()
        return inst, self.decisions.pop(inst, None)

    def truncate(self, length: int) -> None:
        """Remove all instructions after the first `length`."""
        while len(self.insts) > length:
            self.pop()

    def copy(self) -> Trace:
        """Return a trace of the same instructions."""
        return Trace(self.insts, self.decisions)

    def get_decision(self, inst: Instruction) -> Any:
        """Return the decision of `inst`, None if it made none."""
        return self.decisions.get(inst)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool) -> Trace:
        """Return a trace with another decision for `inst`; replay it to get the program."""
        kept = self.instructions(remove_postproc)
        decisions = {i: self.decisions[i] for i in kept if i in self.decisions}
        return Trace(kept, {**decisions, inst: decision})

    def simplified(self, remove_postproc: bool) -> Trace:
        """Return a trace without its dead instructions.

        Dropped are pure instructions whose outputs are unused.
        """
        used: set[Any] = set()
        kept: list[Instruction] = []
        for inst in reversed(self.instructions(remove_postproc)):
            if inst.kind.is_pure and not any(rv in used for rv in inst.outputs if rv is not None):
                continue
            kept.append(inst)
            for value, varies in zip(inst.values, inst.kind.varies, strict=True):
                if varies:
                    used.update(variables_of(value))
        kept.reverse()
        return Trace(kept, {i: self.decisions[i] for i in kept if i in self.decisions})

    def without_composites(self) -> Trace:
        """Return a trace without the marks of composites, which TVM can read."""
        marks = ENTER_COMPOSITE, EXIT_COMPOSITE
        kept = [inst for inst in self.insts if inst.kind.name not in marks]
        return Trace(kept, self.decisions)

    def instructions(self, remove_postproc: bool) -> list[Instruction]:
        """Return the instructions, with `remove_postproc` only those before postprocessing."""
        if remove_postproc:
            for k, inst in enumerate(self.insts):
                if inst.kind.name == _POSTPROC:
                    return self.insts[:k]
        return list(self.insts)

    # --------------------------------------------------------------------------------- replaying

    def apply_to_schedule(
        self,
        sch: Schedule,
        remove_postproc: bool,
        decision_provider: DecisionProvider | None = None,
    ) -> None:
        """Apply the instructions of this trace to `sch`.

        Blocks are found by name, loops by `get_loops` again; decisions that do not fit are
        repaired. `decision_provider(inst, inputs, attrs, decision)` is called for every instruction
        and may replace a decision; if it returns None, the instruction samples again. An
        instruction that fails raises its `ScheduleError`; an instruction that does not fit the
        program or earlier instructions raises a `TraceError`. The earlier instructions stay
        applied.
        """
        self.apply_part(sch, 0, len(self.instructions(remove_postproc)), {}, decision_provider)

    def apply_part(
        self,
        sch: Schedule,
        first: int,
        end: int,
        made: dict[Any, Any],
        decision_provider: DecisionProvider | None = None,
    ) -> None:
        """Apply the instructions from number `first` up to `end`, as `apply_to_schedule` does.

        The instructions before `first` have been applied to `sch`. `made` maps random variables of
        this trace to the results of the applied instructions; this call adds its own.
        """
        made |= {LoopRV.inline_rv(): LoopRV.inline_rv(), LoopRV.root_rv(): LoopRV.root_rv()}
        decisions = self.decisions
        for number, inst in enumerate(self.insts[first:end], first):
            kind = inst.kind
            values = [
                translate(value, made) if varies else value
                for value, varies in zip(inst.values, kind.varies, strict=True)
            ]
            decision = decisions.get(inst) if kind.has_decision else None
            if decision_provider is not None:
                inputs, attrs = kind.pack(values)
                decision = decision_provider(inst, inputs, attrs, decision)
                if decision is not None and not kind.has_decision:
                    raise TraceError(f"{kind.name}: ValueError: the kind accepts no decision")
            try:
                outputs = sch.invoke(kind, values, decision)
            except TensorIRError as error:
                error.add_note(f"This was instruction {number} of the trace, {kind.name}.")
                raise
            if len(outputs) != len(inst.outputs):
                raise TraceError(
                    f"instruction {number}: {kind.name} returned {len(outputs)} outputs, the "
                    f"trace expects {len(inst.outputs)}: it was recorded on another program"
                )
            for old, new in zip(inst.outputs, outputs, strict=True):
                made[old] = new

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Schedule) -> None:
        """Replay a trace given in its JSON form; see `from_json` and `apply_to_schedule`."""
        Trace.from_json(json_obj).apply_to_schedule(sch, remove_postproc=False)

    # -------------------------------------------------------------------------------------- forms

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """Return `[instructions, decisions]` as plain lists, strings and numbers."""
        return to_json(self.instructions(remove_postproc), self.decisions)

    @staticmethod
    def from_json(json_obj: Any) -> Trace:
        """Return the trace whose JSON form (an object or its text) is given.

        Raises TraceError, which names the instruction and the field at fault. Nothing in the JSON
        is executed.
        """
        if isinstance(json_obj, str):
            try:
                json_obj = json.loads(json_obj)
            except (ValueError, RecursionError) as error:
                raise TraceError(f"not a saved trace, the JSON is broken: {error}") from error
        return Trace(*from_json(json_obj))

    def as_python(
        self, remove_postproc: bool = False, *, dialect: Dialect = "tensorir"
    ) -> list[str]:
        """Return the calls of the trace, one line each."""
        return python_lines(self.instructions(remove_postproc), self.decisions, dialect)

    def script(self, *, dialect: Dialect = "tensorir") -> str:
        """Return the trace as a Python function that applies it to a schedule.

        The text runs where it is pasted; with `dialect="tvm"` it has the form of TVM.
        """
        return python_function(self.insts, self.decisions, dialect)

    @staticmethod
    def from_python(text: str) -> Trace:
        """Return the trace that `script` or `as_python` printed, here or by TVM.

        The text is parsed, never executed. Raises DiagnosticError, which shows the place, for text
        that is not a trace: for an unknown primitive, an undefined variable, a wrong argument.
        """
        return Trace(*from_python(text))

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return f"<Trace of {self.summary()}>"

    def summary(self) -> str:
        """Return the numbers of instructions and decisions in words."""
        counts = ((len(self.insts), "instruction"), (len(self.decisions), "decision"))
        return ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in counts)

    def show(self, style: str | None = None, *, dialect: Dialect = "tensorir") -> None:
        """Show the trace as Python, highlighted on a terminal and in a notebook."""
        show_text(self.script(dialect=dialect), style)

    def _repr_html_(self) -> str:
        return text_to_html(self.script())

    # -------------------------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON form atomically, one instruction per line."""
        insts, decisions = self.as_json()
        rows = ",\n  ".join(json.dumps(inst) for inst in insts)
        text = f"[[\n  {rows}\n],\n{json.dumps(decisions)}]\n"
        with replaced_file(path) as file:
            file.write(text.encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Trace:
        """Read a trace from a file; TraceError names the file, the line and the cause."""
        try:
            text = as_path(path).read_text(encoding="utf-8")
            return Trace.from_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise TraceError(
                f"{path}:{error.lineno}:{error.colno}: not a saved trace, the JSON is broken or "
                f"cut short: {error.msg}"
            ) from error
        except TraceError as error:
            raise type(error)(f"{path}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{path}: not a saved trace: {error}") from error


def translate(value: Any, made: Mapping[Any, Any]) -> Any:
    """Return a recorded argument with its random variables replaced as `made` maps them.

    Raises TraceError for a random variable that no instruction before produced.
    """

    def one(value: Any) -> Any:
        if isinstance(value, (BlockRV, LoopRV)) or type(value) is Var:
            if value not in made:
                raise TraceIndexError(
                    "IndexError: the trace uses a random variable before it is defined"
                )
            return made[value]
        return substituted(value, made) if isinstance(value, (PrimExpr, IndexMap)) else value

    return mapped(value, one)
