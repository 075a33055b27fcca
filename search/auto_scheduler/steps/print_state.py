"""A state as the loop nests that it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from search.auto_scheduler.steps.state import Stage, State

_INDENT: Final = "  "


def state_text(state: State, *, unit_loops: bool = False) -> str:
    """Return a line for the inputs and the loops of each stage, attached ones where they run.

    A loop is written `<mark> <name> (0,<extent>)`, with `(None)` where the extent is not known; one
    that is known to run once only with `unit_loops`. Stages that are inlined are left out.
    """
    inputs = [stage.name for stage in state.stages if stage.is_placeholder]
    lines = [f"Placeholder: {', '.join(inputs)}"] if inputs else []
    for index, stage in enumerate(state.stages):
        if stage.place is None and not stage.is_placeholder:
            lines += _nest(state, index, 0, unit_loops)
    if state.is_trace:
        lines += ["Scheduled by a trace:", *str(state.transform_steps[-1]).splitlines()]
    return "\n".join(lines) + "\n"


def _nest(state: State, index: int, depth: int, unit_loops: bool) -> list[str]:
    stage = state.stages[index]
    attached = state.attached_to(index)
    lines: list[str] = []

    def write(text: str) -> None:
        lines.append(_INDENT * depth + text)

    for note in notes_of(stage):
        write(f"{stage.name} {note}")
    for it in stage.iters:
        if unit_loops or it.extent != 1:
            extent = "(None)" if it.extent is None else f"(0,{it.extent})"
            write(f"{_mark(stage, it.name)} {it.name} {extent}")
            depth += 1
        for other, place in attached:
            if place.iterator == it.name:
                lines += _nest(state, other, depth, unit_loops)
    write(f"{stage.name} = ...")
    return lines


def notes_of(stage: Stage) -> list[str]:
    """Return the notes on a stage that are no marks of its loops, such as `auto_unroll: 16`."""
    return [note for hint in stage.hints if (note := hint.says.note)]


def _mark(stage: Stage, name: str) -> str:
    marks = [hint.says.mark_name for hint in stage.hints if hint.iterator == name]
    return next((mark for mark in reversed(marks) if mark), "for")
