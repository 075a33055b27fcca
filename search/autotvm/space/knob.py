"""A knob: a named choice of a template; its values, one of them, and the axes that it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from schedule import LoopRV
from search.autotvm.errors import KnobError
from tensorir.nodes.expr import IntImm, IterVar

if TYPE_CHECKING:
    from schedule import Schedule
    from schedule.decisions.domain import DecisionDomain
    from search.autotvm.space.config import Config


class Entity:
    """One value of a knob.

    `cfg[name]` gives one that knows its configuration: applied to a schedule, it leaves the
    sampling instruction of its knob in the trace, and the primitives take the numbers of that. One
    that was made by its class is applied as constants. Values compare by what they hold.
    """

    code: ClassVar[str]
    """The name of the kind in logs."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._owner: Config | None = None
        self._name = ""

    @classmethod
    def holds(cls, value: Any) -> bool:
        """Say whether something read from a log is a value of a knob of this kind."""
        return True

    def to_json(self) -> list[Any]:
        """Return kind and value as the log has them, without the name of the knob."""
        return [self.code, self._value]

    def owned(self, owner: Config, name: str) -> Self:
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
        return (
            isinstance(other, Entity)
            and type(self) is type(other)
            and bool(self._value == other._value)
        )

    def __hash__(self) -> int:
        return hash(repr(self._value))

    def __repr__(self) -> str:
        return str(self._value)


E = TypeVar("E", bound=Entity)


class KnobSpace(ABC, Generic[E]):
    """The values of one knob, by index: what the decisions of its sampling instruction stand for.

    What is many is listed when it is first looked at.
    """

    kind: type[E]
    """The class of the values."""
    domain: DecisionDomain
    """The decisions of the sampling instruction."""
    policy: str
    """The word for the way in which the values were chosen."""
    num_output: int = 0
    """The number of axes that applying a value gives."""
    can_be_sampled: bool = True
    """True if applying a value is something that primitives do with sampled numbers."""

    def __len__(self) -> int:
        return self.domain.size

    def _at(self, index: int) -> E:
        """Return the value at an index in [0, len)."""
        return self.entity_of(self.domain.at(index))

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a value, None if the knob does not offer it."""
        return self.domain.index_of(tuple(entity._value))

    def fitting(self, entity: Entity) -> E:
        """Return a value that was logged or set as one of this knob, whether offered or not.

        KnobError for a value of another kind or length.
        """
        if not isinstance(entity, self.kind):
            raise KnobError(
                f"it is a {self.kind.__name__}, the configuration has a "
                f"{type(entity).__name__}: {entity}"
            )
        return self._made_of(entity._value)

    def _made_of(self, value: Any) -> E:
        """Return the entity of a plain value; KnobError for a value that the knob cannot have."""
        try:
            return self.entity_of(self.domain.repair(value))
        except ValueError as error:
            raise KnobError(f"the value {error}") from None

    def entity_of(self, decision: Any) -> E:
        """Return the value that a decision of the sampling instruction stands for."""
        return self.kind(decision)

    @abstractmethod
    def sample(self, sch: Schedule, name: str, entity: E) -> None:
        """Append the sampling instruction of the knob, which decides for `entity`, to a trace."""

    @property
    def summary(self) -> str:
        """A few words about the values that the knob offers."""
        kind = type(self).__name__.removesuffix("Space")
        return f"{kind}(policy={self.policy}) len={len(self)}"

    def __getitem__(self, index: int) -> E:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} of {len(self)} values")
        return self._at(index % len(self))

    def __iter__(self) -> Iterator[E]:
        return map(self._at, range(len(self)))

    @property
    def entities(self) -> list[E]:
        """All values."""
        return list(self)

    def __repr__(self) -> str:
        return self.summary


# ------------------------------------------------------------------------------------------- axes


class VirtualAxis(NamedTuple):
    """A loop as a knob sees it: its number of iterations, -1 where that is not known, and name."""

    length: int
    name: str = ""


@dataclass(frozen=True)
class Axis:
    """The part `index` of what the knob `space` splits or reorders: it may go into other knobs."""

    space: KnobSpace[Any]
    index: int


AxisLike: TypeAlias = "int | IntImm | VirtualAxis | Axis | LoopRV | IterVar"
"""A number of iterations, a loop of a schedule, an axis of a `te` operation, a part of a knob."""


def virtual_axis(axis: AxisLike) -> VirtualAxis:
    """Return an axis with the facts that a knob needs; KnobError for anything else."""
    if isinstance(axis, VirtualAxis):
        return axis
    if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool):
        return VirtualAxis(int(axis))
    if isinstance(axis, IntImm):
        return VirtualAxis(axis.value)
    if isinstance(axis, LoopRV):
        schedule = axis.schedule
        if schedule is None:
            raise KnobError(f"the loop {axis!r} belongs to no schedule; give its length")
        loop = schedule.get(axis)
        extent = loop.extent
        return VirtualAxis(extent.value if isinstance(extent, IntImm) else -1, loop.loop_var.name)
    if isinstance(axis, IterVar):
        whole = None if axis.dom is None else axis.dom.extent
        return VirtualAxis(whole.value if isinstance(whole, IntImm) else -1, axis.var.name)
    if isinstance(axis, Axis):
        raise KnobError("the length of what another knob splits varies; split it in that knob")
    raise KnobError(
        f"an axis is a loop, an axis of a te operation or a length, got {type(axis).__name__}: "
        f"{axis!r}"
    )
