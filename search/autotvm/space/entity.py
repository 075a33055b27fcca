"""One configuration of a template: a value for each knob."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from search.autotvm.errors import KnobError, UnknownKnobError
from search.autotvm.space.annotate import AnnotateEntity
from search.autotvm.space.config import Config, checked_space
from search.autotvm.space.knob import Axis, Entity, KnobSpace
from search.autotvm.space.option import OtherOptionEntity
from search.autotvm.space.reorder import ReorderEntity
from search.autotvm.space.split import SplitEntity

if TYPE_CHECKING:
    from search.autotvm.space.config_space import ConfigSpace

_KINDS: Final[dict[str, type[Entity]]] = {
    kind.code: kind for kind in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)
}


def entity_of_json(code: Any, value: Any) -> Entity:
    """Return the value of a knob from what `Entity.to_json` gave; KnobError for what is none."""
    kind = _KINDS.get(code) if isinstance(code, str) else None
    if kind is None:
        raise KnobError(f"there is no kind of knob {code!r}; known are {sorted(_KINDS)}")
    if not kind.holds(value):
        raise KnobError(f"a knob of kind {code!r} cannot have the value {value!r}")
    return kind(value)


class ConfigEntity(Config):
    """A value for each knob, and the index that it had in the space it was taken from.

    One from a log knows no space, and its values count: they are used as they stand also where the
    space has changed since and the index means another configuration. Knobs that a template
    declares must have values of the same kind and length.
    """

    def __init__(
        self,
        index: int,
        code_hash: str | None,
        entity_map: Mapping[str, Entity],
        space: ConfigSpace | None = None,
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
        return [Axis(space, k) for k in range(space.num_output)]

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without spaces, whose filters are functions; templates declare knobs anew."""
        return {**self.__dict__, "_whole": None, "space_map": {}}

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
        """Return the configuration that a log has; KnobError for what is none."""
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
