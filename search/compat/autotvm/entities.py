"""The values of knobs: a split, an order, annotations or an option, applied to a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from schedule.decisions.knobs import MARKS, LoopMarkDomain, SplitDomain, checked_order
from schedule.primitives.loop_kind import refused_extent
from search.compat.autotvm.errors import KnobError
from tensorir.nodes.expr import IntImm

if TYPE_CHECKING:
    from schedule import LoopRV, Schedule
    from schedule.handles import ExprRV
    from search.compat.autotvm.config import Config


class Entity:
    """One value of a knob.

    `cfg[name]` returns a value that belongs to the configuration: applying it appends the sampling
    instruction of the knob to the trace, and primitives use the sampled numbers. A value that a
    template constructs itself is applied as constants. Values compare by content.
    """

    code: ClassVar[str]
    """The name of the kind in logs."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._owner: Config | None = None
        self._name = ""

    def to_json(self) -> list[Any]:
        """Return kind and value as in a log, without the name of the knob."""
        return [self.code, self._value]

    def owned(self, owner: Config, name: str) -> Self:
        """Return the value as a value of a configuration's knob."""
        twin = type(self)(self._value)
        twin._owner, twin._name = owner, name
        return twin

    @property
    def features(self) -> list[float]:
        """The numbers of the value, for a cost model."""
        return [float(number) for number in self._value]

    def _read(self) -> Any:
        """Return the value to Python code, whose use is unknown: the trace then fixes the knob."""
        if self._owner is not None:
            self._owner.reads.add(self._name)
        return self._value

    def _sampled_numbers(self, sch: Schedule) -> list[Any] | None:
        """Return the sampled numbers of the knob in a schedule, None for constants."""
        return None if self._owner is None else self._owner.sampled(sch, self._name)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Entity) and type(self) is type(other)
        return same and bool(self._value == other._value)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(repr(self._value))

    def __repr__(self) -> str:
        return str(self._value)


class _ListEntity(Entity):
    def __init__(self, value: Sequence[Any]) -> None:
        super().__init__(list(value))


class SplitEntity(_ListEntity):
    """The sizes of the parts of a loop, outermost first; the first may be -1, to be inferred."""

    code = "sp"

    @property
    def size(self) -> list[int]:
        """The sizes. Reading them fixes the knob in the trace."""
        return list(self._read())

    def apply(self, sch: Schedule, op: Any, axis: LoopRV | None = None) -> list[LoopRV]:
        """Split a loop and return the parts: `apply(sch, loop)`, or `apply(sch, block, loop)`.

        If the sizes do not divide the number of iterations, the last iterations are guarded.
        """
        loop: LoopRV = op if axis is None else axis
        if len(self._value) == 1:
            return [loop]
        return sch.split(loop, self._sampled_numbers(sch) or [None, *self._value[1:]])


class ReorderEntity(_ListEntity):
    """The position of each axis in the new order."""

    code = "re"

    @property
    def perm(self) -> list[int]:
        """The positions. Reading them fixes the knob in the trace."""
        return list(self._read())

    def apply(self, sch: Schedule, op: Any, axes: Sequence[LoopRV] | None = None) -> list[LoopRV]:
        """Reorder loops and return them in the new order.

        `apply(sch, loops)`, or `apply(sch, block, loops)`. Positions beyond the number of loops are
        skipped.
        """
        loops: list[LoopRV] = list(op if axes is None else axes)
        if len(loops) == len(self._value) and (positions := self._sampled_numbers(sch)) is not None:
            return sch.reorder_by(loops, positions)
        ordered = [loops[position] for position in self.perm if position < len(loops)]
        sch.reorder(*ordered)
        return ordered


class AnnotateEntity(_ListEntity):
    """The annotation of each axis: `none`, `unroll` or `vec`."""

    code = "an"

    @property
    def anns(self) -> list[str]:
        """The annotations. Reading them fixes the knob in the trace."""
        return list(self._read())

    @property
    def features(self) -> list[float]:
        """Three numbers for each axis, one-hot in the order `none`, `vec`, `unroll`."""
        return [float(ann == mark) for ann in self._value for mark in MARKS]

    def apply(
        self,
        sch: Schedule,
        op: Any,
        axes: Sequence[LoopRV] | None = None,
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Config | None = None,
    ) -> list[LoopRV]:
        """Annotate loops and return them: `apply(sch, loops, ...)`, or `apply(sch, block, loops)`.

        Unrolling a loop of more than `max_unroll` iterations, or vectorizing a loop whose length is
        not in `vec_size`, makes the configuration `cfg` (by default that of the knob) invalid.
        `axis_lens` override the lengths of the loops.
        """
        loops: list[LoopRV] = list(op if axes is None else axes)
        anns = self._value
        if len(anns) != len(loops):
            raise KnobError(f"{len(anns)} annotations {anns} cannot annotate {len(loops)} loops")
        extents = [sch.get(loop).extent for loop in loops]
        lengths = axis_lens or [e.value if isinstance(e, IntImm) else -1 for e in extents]
        refused = [
            f"an axis of length {length} is to be {ann}: {reason}"
            for ann, length in zip(anns, lengths, strict=True)
            if (reason := refused_extent(length, ann, max_unroll, vec_size))
        ]
        owner = cfg or self._owner
        if refused and owner is None:
            raise KnobError(refused[0])
        for message in refused:
            owner.raise_error(message)  # type: ignore[union-attr]
        marks = self._sampled_numbers(sch) or [MARKS.index(ann) for ann in anns]
        sch.mark_loops(loops, marks, *((None, None) if refused else (max_unroll, vec_size)))
        return loops


class OtherOptionEntity(Entity):
    """A value that JSON can represent."""

    code = "ot"

    @property
    def val(self) -> Any:
        """The value. Reading it fixes the knob in the trace."""
        return self._read()

    @property
    def features(self) -> list[float]:
        """The value, which must be a number."""
        if not isinstance(self._value, (int, float)):
            raise KnobError(f"the value {self._value!r} is not a number and cannot be a feature")
        return [float(self._value)]

    def apply(self, sch: Schedule) -> ExprRV | int:
        """Return the number as primitives accept it, so that a search of traces may change it.

        Raises KnobError unless all candidates are 32-bit integers; other values are read by `val`.
        """
        numbers = self._sampled_numbers(sch)
        if numbers is None and type(self._value) is not int:
            raise KnobError(
                f"the knob {self._name!r} has candidates that are not 32-bit integers; use val"
            )
        value: ExprRV | int = self._read() if numbers is None else numbers[0]
        return value


def _checked_split(value: Any) -> None:
    SplitDomain(1, len(value)).repair(value)
    if value[0] != -1 and value[0] <= 0:
        raise ValueError("the first size is -1 or above 0")


_KINDS: Final[dict[str, tuple[type[Entity], Callable[[Any], object]]]] = {
    "sp": (SplitEntity, _checked_split),
    "re": (ReorderEntity, lambda value: checked_order(value, len(value) or 1)),
    "an": (AnnotateEntity, lambda value: LoopMarkDomain(len(value), "").repair(value)),
    "ot": (OtherOptionEntity, lambda value: value),
}


def entity_of_json(code: Any, value: Any) -> Entity:
    """Return the value of a knob from the result of `Entity.to_json`; KnobError for other data."""
    if not isinstance(code, str) or code not in _KINDS:
        raise KnobError(f"unknown kind of knob {code!r}; expected one of {sorted(_KINDS)}")
    kind, check = _KINDS[code]
    try:
        check(value)
    except (TypeError, ValueError, IndexError):
        raise KnobError(f"a knob of kind {code!r} cannot have the value {value!r}") from None
    return kind(value)
