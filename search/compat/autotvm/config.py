"""What a template declares its knobs on, and one configuration: a value for each knob."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from schedule import Instruction, Schedule, Trace
from search.compat.autotvm.axes import Axis, AxisLike, VirtualAxis, virtual_axis
from search.compat.autotvm.entities import Entity, OtherOptionEntity, entity_of_json
from search.compat.autotvm.errors import KnobError, UnknownKnobError
from search.compat.autotvm.knobs import (
    AnnotateSpace,
    KnobSpace,
    OtherOptionSpace,
    ReorderSpace,
    SplitSpace,
)
from search.space_generator.decision_site import KNOB


class Config(ABC):
    """A set of knobs, each with its current value.

    `get_config()` gives a template one, and the template never knows which: a `ConfigSpace` while
    its knobs are collected, a `ConfigEntity` while one configuration is made, a
    `FallbackConfigEntity` where no configuration is known.
    """

    is_fallback = False

    def __init__(self) -> None:
        self.space_map: dict[str, KnobSpace[Any]] = {}
        """The knobs that the template has declared, in the order of definition."""
        self.entity_map: dict[str, Entity] = {}
        """The value of each knob."""
        self.errors: list[str] = []
        """The reasons why the configuration is not valid."""
        self.flop: float = 0
        """Operations that the template has counted itself."""
        self.cost: float | None = None
        """Seconds that a log has for the configuration."""
        self.code_hash: str | None = None
        self.reads: set[str] = set()
        """Knobs whose value Python has looked at: the program may depend on them in any way."""

    def begin(self) -> None:
        """Forget what an earlier run of the template has declared."""
        self.errors.clear()
        self.flop = 0

    # -------------------------------------------------------------------------------------- knobs

    def define_split(
        self, name: str, axis: AxisLike, policy: str = "factors", **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that splits an axis, and return handles of the parts; see `SplitSpace`.

        `kwargs`: `num_outputs`, `max_factor`, `filter`, `no_tail`, `candidate`.
        """
        return self._define(name, lambda: SplitSpace(axis, policy, **kwargs))

    def define_reorder(
        self, name: str, axes: Sequence[AxisLike], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that orders axes, and return handles of them; see `ReorderSpace`.

        `kwargs`: `interval`, `candidate`, `spatial`, `reduce`.
        """
        return self._define(name, lambda: ReorderSpace(axes, policy, **kwargs))

    def define_annotate(
        self, name: str, axes: Sequence[AxisLike], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that annotates axes, and return handles of them; see `AnnotateSpace`.

        `kwargs`: `num_anchor`, `candidate`.
        """
        return self._define(name, lambda: AnnotateSpace(axes, policy, **kwargs))

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """Declare a knob that is one of some values."""
        self._define(name, lambda: OtherOptionSpace(candidate))

    @staticmethod
    def axis(var: AxisLike) -> VirtualAxis:
        """Return the length of a loop, an axis or a number as an axis of knobs."""
        return virtual_axis(var)

    reduce_axis = axis

    def multi_filter(
        self,
        filter: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        """Restrict the combinations of values; only a space keeps the filter."""

    @abstractmethod
    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> list[Axis]:
        """Declare a knob whose space `make` gives, and return handles of the axes it gives."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.entity_map:
            raise self._unknown(name)
        return self.entity_map[name].owned(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.entity_map

    def _unknown(self, name: str) -> UnknownKnobError:
        known = list(self.entity_map)
        close = get_close_matches(str(name), known, 1)
        hint = f"; do you mean {close[0]!r}?" if close else ""
        return UnknownKnobError(
            f"the configuration has no knob {name!r}, it has {', '.join(known) or 'none'}{hint}"
        )

    # ---------------------------------------------------------------------------------- validity

    def add_flop(self, flop: float) -> None:
        """Add to the number of operations of the task."""
        self.flop += float(flop)

    def raise_error(self, msg: str) -> None:
        """Declare the configuration invalid, with a reason."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Return True if no error was raised."""
        return not self.errors

    # ------------------------------------------------------------------------------------- traces

    def note_read(self, name: str) -> None:
        """Take note that Python looked at the value of a knob."""
        self.reads.add(name)

    def sampled(self, sch: Schedule, name: str) -> Sequence[Any] | None:
        """Return the sampled numbers of a knob in the trace of `sch`, None for constants.

        The sampling instruction is appended if the trace lacks it. A knob that has one value is a
        constant, and so is one that Python has read.
        """
        space = self.space_map.get(name)
        if space is None or not space.can_be_sampled or len(space) <= 1:
            return None
        inst = knob_instructions(sch.trace).get(name)
        if inst is None:
            if name in self.reads:
                return None
            space.sample(sch, name, self.entity_map[name])
            inst = sch.trace.insts[-1]
        return inst.outputs

    def record(self, sch: Schedule) -> None:
        """Complete the trace of `sch` with the knobs that none of its instructions uses.

        Those that Python has read are recorded with their one value: no other one leads to this
        trace. The decisions of a search for the others change nothing.
        """
        present = knob_instructions(sch.trace)
        for name, entity in self.entity_map.items():
            space = self.space_map.get(name)
            if name in present or space is None:
                continue
            if name in self.reads or not space.can_be_sampled:
                sch.sample_knob_option(name, [entity._value], decision=0)
            else:
                space.sample(sch, name, entity)


class ConfigEntity(Config):
    """A value for each knob, and the index that it had in the space it was taken from.

    One from a log has no space, and its values count: they are used unchanged also where the space
    has changed since and the index means another configuration. Knobs that a template declares must
    have values of the same kind and length.
    """

    def __init__(
        self,
        index: int,
        code_hash: str | None,
        entity_map: Mapping[str, Entity],
        space: Config | None = None,
    ) -> None:
        super().__init__()
        self.index = index
        self.code_hash = code_hash
        self.entity_map = dict(entity_map)
        self._whole = space
        if space is not None:
            self.reads = space.reads

    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> list[Axis]:
        space = None if self._whole is None else self._whole.space_map.get(name)
        if space is None:
            space = checked_space(name, make)
            if name not in self.entity_map:
                why = (
                    "perhaps for an older version of the template"
                    if self._whole is None
                    else "as it declares it for some values of others only; declare it for all"
                )
                raise UnknownKnobError(
                    "the template declares a knob that the configuration was made without, "
                    f"{why}: {self._unknown(name)}"
                )
            try:
                self.entity_map[name] = space.fitting(self.entity_map[name])
            except KnobError as error:
                raise KnobError(
                    f"the knob {name!r} differs from the one of the configuration: {error}"
                ) from error
        self.space_map[name] = space
        return handles(space)

    def get_flatten_feature(self) -> npt.NDArray[np.float32]:
        """Return the values of all knobs in one row of numbers, float32.

        KnobError for an option that is no number.
        """
        row = [number for entity in self.entity_map.values() for number in entity.features]
        return np.array(row, dtype=np.float32)

    def get_other_option(self) -> dict[str, Any]:
        """Return the values of the knobs that are options."""
        return {
            name: entity._value
            for name, entity in self.entity_map.items()
            if isinstance(entity, OtherOptionEntity)
        }

    def to_json_dict(self) -> dict[str, Any]:
        """Return the configuration as logs have it."""
        return {
            "index": self.index,
            "code_hash": self.code_hash,
            "entity": [[name, *entity.to_json()] for name, entity in self.entity_map.items()],
        }

    @classmethod
    def from_json_dict(cls, json_dict: Mapping[str, Any]) -> Self:
        """Return the configuration that a log has; KnobError for anything else."""
        try:
            index, code_hash = json_dict["index"], json_dict.get("code_hash")
            rows = [(name, code, value) for name, code, value in json_dict["entity"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise KnobError(
                "a configuration has index, code_hash and entity, a list of "
                f"[name, kind, value]; got {json_dict!r}"
            ) from error
        if type(index) is not int or not all(isinstance(name, str) for name, _, _ in rows):
            raise KnobError(f"an index is a whole number and names are text; got {json_dict!r}")
        entities = {name: entity_of_json(code, value) for name, code, value in rows}
        if len(entities) < len(rows):
            raise KnobError(f"a knob has one value; got several of a name in {json_dict!r}")
        return cls(index, code_hash, entities)

    def __str__(self) -> str:
        pairs = ", ".join(f"({name!r}, {value})" for name, value in self.entity_map.items())
        return f"[{pairs}],{self.code_hash},{self.index}"

    __repr__ = __str__


def handles(space: KnobSpace[Any]) -> list[Axis]:
    """Return handles of the axes that a knob gives."""
    return [Axis(space, k) for k in range(space.num_output)]


def knob_instructions(trace: Trace) -> dict[str, Instruction]:
    """Return the sampling instructions of a trace that are knobs, by name."""
    return {
        inst.value_of(KNOB): inst
        for inst in trace.insts
        if inst.kind.has_decision and inst.kind.params and inst.kind.params[0].name == KNOB
    }


def checked_space(name: Any, make: Callable[[], KnobSpace[Any]]) -> KnobSpace[Any]:
    """Return the space of a knob; KnobError naming the knob if it cannot be defined."""
    if not isinstance(name, str) or not name:
        raise KnobError(f"the name of a knob is a text that is not empty, got {name!r}")
    try:
        space = make()
    except (KnobError, TypeError) as error:
        raise KnobError(f"the knob {name!r} cannot be defined: {error}") from error
    if not space.domain.size:
        raise KnobError(f"the knob {name!r} has no candidates left; check its limits")
    return space
