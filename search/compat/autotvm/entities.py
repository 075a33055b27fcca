"""The values of knobs: a split, an order, annotations or an option, applied to a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

from schedule.decisions.knobs import MARKS, LoopMarkDomain, SplitDomain, checked_order
from schedule.primitives.loop_kind import refused_extent
from search.compat.autotvm.axes import virtual_axis
from search.compat.autotvm.errors import KnobError

if TYPE_CHECKING:
    from schedule import LoopRV, Schedule
    from schedule.handles import ExprRV


class Owner(Protocol):
    """The configuration that a value belongs to."""

    def note_read(self, name: str) -> None:
        """Take note that Python looked at the value of a knob."""

    def sampled(self, sch: Schedule, name: str) -> Sequence[Any] | None:
        """Return the sampled numbers of a knob in the trace of `sch`, None for constants."""

    def raise_error(self, msg: str) -> None:
        """Declare the configuration invalid, with a reason."""


class Entity:
    """One value of a knob.

    `cfg[name]` gives one that knows its configuration: applied to a schedule, it leaves the
    sampling instruction of its knob in the trace, and primitives use the numbers of that
    instruction. One that was made by its class is applied as constants. Values compare by content.
    """

    code: ClassVar[str]
    """The name of the kind in logs."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._owner: Owner | None = None
        self._name = ""

    def to_json(self) -> list[Any]:
        """Return kind and value as logs have them, without the name of the knob."""
        return [self.code, self._value]

    def owned(self, owner: Owner, name: str) -> Self:
        """Return the value as that of a knob of a configuration."""
        twin = type(self)(self._value)
        twin._owner, twin._name = owner, name
        return twin

    @property
    def features(self) -> list[float]:
        """The features of the value for a cost model: its numbers."""
        return [float(number) for number in self._value]

    def _read(self) -> Any:
        """Return the value to Python: what the template does next may depend on it."""
        if self._owner is not None:
            self._owner.note_read(self._name)
        return self._value

    def _numbers(self, sch: Schedule) -> Sequence[Any] | None:
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
    """The sizes of the parts of a loop, outermost first; -1 is what is left for the first."""

    code = "sp"

    @property
    def size(self) -> list[int]:
        """The sizes. Reading them fixes the knob in the trace: Python may depend on them."""
        return list(self._read())

    def apply(self, sch: Schedule, op: Any, axis: LoopRV | None = None) -> list[LoopRV]:
        """Split a loop and return the parts: `apply(sch, loop)`, or `apply(sch, block, loop)`.

        Where the sizes do not divide the number of iterations, the last outer one is guarded.
        """
        loop: LoopRV = op if axis is None else axis
        if len(self._value) == 1:
            return [loop]
        sizes = self._numbers(sch)
        return sch.split(loop, [None, *self._value[1:]] if sizes is None else list(sizes))


class ReorderEntity(_ListEntity):
    """The position of each axis in the new order."""

    code = "re"

    @property
    def perm(self) -> list[int]:
        """The positions. Reading them fixes the knob in the trace."""
        return list(self._read())

    def apply(self, sch: Schedule, op: Any, axes: Sequence[LoopRV] | None = None) -> list[LoopRV]:
        """Reorder loops and return them in the new order.

        `apply(sch, loops)`, or `apply(sch, block, loops)`. Where there are fewer loops than
        positions, the positions beyond are left out.
        """
        loops: list[LoopRV] = list(op if axes is None else axes)
        order = self._value
        if len(loops) == len(order):
            positions = self._numbers(sch)
            if positions is not None:
                return sch.reorder_by(loops, list(positions))
        else:
            order = self.perm
        ordered = [loops[position] for position in order if position < len(loops)]
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
        """For each axis a number for `none`, `vec` and `unroll`: 1 for its own, 0 for others."""
        return [float(ann == mark) for ann in self._value for mark in MARKS]

    def apply(
        self,
        sch: Schedule,
        op: Any,
        axes: Sequence[LoopRV] | None = None,
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Owner | None = None,
    ) -> list[LoopRV]:
        """Annotate loops and return them: `apply(sch, loops, ...)`.

        `apply(sch, block, loops, ...)` is the same. A loop longer than `max_unroll` that would be
        unrolled, and one that would be vectorized with a length that is not in `vec_size`, make the
        configuration `cfg`, or the one of the knob, invalid. `axis_lens` override the lengths of
        the loops.
        """
        loops: list[LoopRV] = list(op if axes is None else axes)
        anns = self._value
        if len(anns) != len(loops):
            raise KnobError(f"{len(anns)} annotations {anns} are applied to {len(loops)} loops")
        lengths = [virtual_axis(loop).length for loop in loops] if axis_lens is None else axis_lens
        refused = [
            f"an axis of length {length} is to be {ann}: {reason}"
            for ann, length in zip(anns, lengths, strict=True)
            if (reason := refused_extent(length, ann, max_unroll, vec_size))
        ]
        owner = cfg or self._owner
        if refused and owner is None:
            raise KnobError(refused[0])
        for message in refused:
            assert owner is not None
            owner.raise_error(message)
        marks = self._numbers(sch)
        if marks is not None:
            limits = (None, None) if refused else (max_unroll, vec_size)
            sch.mark_loops(loops, list(marks), *limits)
            return loops
        for loop, ann in zip(loops, anns, strict=True):
            if ann == "vec":
                sch.vectorize(loop)
            elif ann == "unroll":
                sch.unroll(loop)
        return loops


class OtherOptionEntity(Entity):
    """A value: anything that JSON can hold."""

    code = "ot"

    @property
    def val(self) -> Any:
        """The value. Reading it fixes the knob in the trace: Python may depend on it."""
        return self._read()

    @property
    def features(self) -> list[float]:
        """The value, which must be a number."""
        if not isinstance(self._value, (int, float)):
            raise KnobError(f"the value {self._value!r} is no number, so it is no feature")
        return [float(self._value)]

    def apply(self, sch: Schedule) -> ExprRV | int:
        """Return the number as primitives accept it, so that a search of traces may change it.

        KnobError where a candidate is no whole number: read `val`, which fixes the knob.
        """
        numbers = self._numbers(sch)
        if numbers is not None:
            return numbers[0]  # type: ignore[no-any-return]
        if type(self._value) is not int:
            raise KnobError(
                f"the knob {self._name!r} has candidates that are no whole numbers of 32 bits; "
                "read val instead"
            )
        value: int = self._read()
        return value


def _checked_split(value: Any) -> Any:
    if not value or (value[0] != -1 and value[0] <= 0):
        raise ValueError("the first size is -1 or above 0")
    return SplitDomain(1, len(value)).repair(value)


_KINDS: Final[dict[str, tuple[type[Entity], Callable[[Any], object]]]] = {
    "sp": (SplitEntity, _checked_split),
    "re": (ReorderEntity, lambda value: checked_order(value, len(value) or 1)),
    "an": (AnnotateEntity, lambda value: LoopMarkDomain(len(value), "").repair(value)),
    "ot": (OtherOptionEntity, lambda value: value),
}


def entity_of_json(code: Any, value: Any) -> Entity:
    """Return the value of a knob from what `Entity.to_json` gave; KnobError for anything else."""
    if not isinstance(code, str) or code not in _KINDS:
        raise KnobError(f"unknown kind of knob {code!r}; expected one of {sorted(_KINDS)}")
    kind, check = _KINDS[code]
    try:
        check(value)
    except (TypeError, ValueError):
        raise KnobError(f"a knob of kind {code!r} cannot have the value {value!r}") from None
    return kind(value)
