"""The configuration that a template declares its knobs on: a value for each knob."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from schedule import Instruction, Schedule, Trace
from search.compat.autotvm.entities import Entity, OtherOptionEntity, entity_of_json
from search.compat.autotvm.errors import KnobError, UnknownKnobError
from search.compat.autotvm.knobs import (
    AnnotateSpace,
    Axis,
    AxisLike,
    KnobSpace,
    OtherOptionSpace,
    ReorderSpace,
    SplitSpace,
    VirtualAxis,
    virtual_axis,
)
from search.space_generator.knobs import KNOB


class Config(ABC):
    """A set of knobs, each with its current value.

    `get_config()` returns a `ConfigSpace` while the knobs of a template are collected, a
    `ConfigEntity` to apply one configuration, and a `FallbackConfigEntity` if no log has a
    configuration. A template treats them alike.
    """

    is_fallback = False

    def __init__(self) -> None:
        self.space_map: dict[str, KnobSpace[Any]] = {}
        """The knobs that the template has declared, in the order of definition."""
        self.entity_map: dict[str, Entity] = {}
        """The value of each knob."""
        self.errors: list[str] = []
        """The reasons why the configuration is invalid."""
        self.flop: float = 0
        """The number of operations that the template has declared by `add_flop`."""
        self.cost: float | None = None
        """Seconds of a run, if a log has them."""
        self.reads: set[str] = set()
        """The knobs whose value Python has read: the program may depend on them in any way."""

    # -------------------------------------------------------------------------------------- knobs

    def define_split(
        self, name: str, axis: AxisLike, policy: str = "factors", **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that splits an axis, and return handles of the parts.

        `kwargs` are those of `SplitSpace`: `num_outputs`, `max_factor`, `filter`, `no_tail`,
        `candidate`.
        """
        return self._declare(name, lambda: SplitSpace(axis, policy, **kwargs))

    def define_reorder(
        self, name: str, axes: Sequence[AxisLike], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that orders axes, and return handles of them; see `ReorderSpace`."""
        return self._declare(name, lambda: ReorderSpace(axes, policy, **kwargs))

    def define_annotate(
        self, name: str, axes: Sequence[AxisLike], policy: str, **kwargs: Any
    ) -> list[Axis]:
        """Declare a knob that annotates axes, and return handles of them; see `AnnotateSpace`."""
        return self._declare(name, lambda: AnnotateSpace(axes, policy, **kwargs))

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """Declare a knob that is one of some values."""
        self._declare(name, lambda: OtherOptionSpace(candidate))

    @staticmethod
    def axis(var: AxisLike) -> VirtualAxis:
        """Return the length and the name of a loop, an axis or a number."""
        return virtual_axis(var)

    reduce_axis = axis

    def multi_filter(self, filter: Callable[[Mapping[str, Any]], bool]) -> None:
        """Restrict the combinations of values; only a `ConfigSpace` keeps the filter."""

    def _declare(self, name: str, make: Callable[[], KnobSpace[Any]]) -> list[Axis]:
        space = self._define(name, make)
        self.space_map[name] = space
        return [Axis(space, k) for k in range(space.num_output)]

    @abstractmethod
    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> KnobSpace[Any]:
        """Return the space of a declared knob, and set its value."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.entity_map:
            raise self._unknown_knob(name)
        return self.entity_map[name].owned(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.entity_map

    def _unknown_knob(self, name: str) -> UnknownKnobError:
        known = list(self.entity_map)
        close = get_close_matches(str(name), known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return UnknownKnobError(
            f"unknown knob {name!r}; the configuration has {', '.join(known) or 'none'}{hint}"
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

    def sampled(self, sch: Schedule, name: str) -> list[Any] | None:
        """Return the sampled numbers of a knob in the trace of `sch`, None for constants.

        The sampling instruction is appended if the trace lacks it. A knob with one value is a
        constant, and so is a knob that Python has read.
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
        return list(inst.outputs)

    def record(self, sch: Schedule) -> None:
        """Append knobs without a sampling instruction to the trace of `sch`.

        A knob that Python has read is recorded with its one value, since no other value results in
        this trace. The decisions of a search for the other knobs change nothing.
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
    """A value for each knob, and the index in the space that the configuration was taken from.

    A configuration from a log is without a space. Its values are applied unchanged, even if that
    has changed since and the index now means another configuration; the knobs of the template must
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
        self._known = {} if space is None else space.space_map
        if space is not None:
            self.reads = space.reads

    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> KnobSpace[Any]:
        if name in self._known:
            return self._known[name]
        space = checked_space(name, make)
        if name not in self.entity_map:
            raise UnknownKnobError(
                f"{self._unknown_knob(name)}. Either the configuration belongs to another version "
                "of the template, or the template declares this knob for some values of other "
                "knobs only: declare it for all"
            )
        try:
            self.entity_map[name] = space.fit_entity(self.entity_map[name])
        except KnobError as error:
            raise KnobError(
                f"the knob {name!r} differs from the one of the configuration: {error}"
            ) from error
        return space

    def get_flatten_feature(self) -> npt.NDArray[np.float32]:
        """Return the values of all knobs in one row of numbers, float32.

        Raises KnobError for an option that is not a number.
        """
        row = [number for entity in self.entity_map.values() for number in entity.features]
        return np.array(row, dtype=np.float32)

    def get_other_option(self) -> dict[str, Any]:
        """Return the values of the knobs that are options."""
        options = self.entity_map.items()
        return {name: one._value for name, one in options if isinstance(one, OtherOptionEntity)}

    def to_json_dict(self) -> dict[str, Any]:
        """Return the configuration as in a log."""
        return {
            "index": self.index,
            "code_hash": self.code_hash,
            "entity": [[name, *entity.to_json()] for name, entity in self.entity_map.items()],
        }

    @classmethod
    def from_json_dict(cls, json_dict: Mapping[str, Any]) -> Self:
        """Return the configuration of a log; KnobError for other data."""
        try:
            index, code_hash = json_dict["index"], json_dict.get("code_hash")
            rows = [(name, code, value) for name, code, value in json_dict["entity"]]
            if type(index) is not int or not all(isinstance(name, str) for name, _, _ in rows):
                raise TypeError("the index is an integer and names are strings")
            entities = {name: entity_of_json(code, value) for name, code, value in rows}
            if len(entities) < len(rows):
                raise ValueError("a knob occurs twice")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise KnobError(
                f"{json_dict!r} is not a configuration ({error}); expected index, code_hash and "
                "entity, a list of [name, kind, value]"
            ) from error
        return cls(index, code_hash, entities)

    def __str__(self) -> str:
        pairs = ", ".join(f"({name!r}, {value})" for name, value in self.entity_map.items())
        return f"[{pairs}],{self.code_hash},{self.index}"

    __repr__ = __str__


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
        raise KnobError(f"the name of a knob is a non-empty string, got {name!r}")
    try:
        space = make()
        if not len(space):
            raise KnobError("its limits reject all candidates")
    except (KnobError, TypeError) as error:
        raise KnobError(f"the knob {name!r} cannot be defined: {error}") from error
    return space
