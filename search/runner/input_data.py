"""Arrays of a user that a program is measured on, in place of those that are made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.arg_info import ArgInfo, TensorInfo
from search.errors import TuningError
from search.kinds import nearest
from search.runner.argument_values import Values
from tensorir.function import PrimFunc

InputData: TypeAlias = "Mapping[str, Any] | Callable[[], Mapping[str, Any]]"
"""Arrays by the names of parameters or of their buffers, or a function that returns that."""


def checked_input_data(func: PrimFunc, input_data: InputData | None) -> dict[int, NDArray[Any]]:
    """Return the arrays that a user gives, by the positions of the parameters that they are for.

    TuningError for a name that no parameter has, and for an array of another shape or dtype.
    """
    if input_data is None:
        return {}
    given = input_data() if callable(input_data) else input_data
    if not isinstance(given, Mapping):
        raise TuningError(
            "input_data is a mapping from names of parameters to arrays, or a function that "
            f"returns one, got {type(given).__name__}"
        )
    positions: dict[str, int] = {}
    for position, param in enumerate(func.params):
        positions[param.name] = position
        if param in func.buffer_map:
            positions[func.buffer_map[param].name] = position
    infos = ArgInfo.from_prim_func(func)
    found: dict[int, NDArray[Any]] = {}
    for name, value in given.items():
        if name not in positions:
            raise TuningError(
                f"input_data has an array for {name!r}, which is no parameter of the program"
                + nearest(str(name), positions)
            )
        info = infos[positions[name]]
        assert isinstance(info, TensorInfo)
        array = np.asarray(value)
        dtype = info.dtype.to_numpy()
        if array.shape != info.shape or array.dtype != dtype:
            held = "" if str(dtype) == str(info.dtype) else f" (the bits of {info.dtype})"
            raise TuningError(
                f"input_data[{name!r}] has the shape {array.shape} and dtype {array.dtype}; the "
                f"program takes {info.shape} of {dtype}{held}"
            )
        found[positions[name]] = array
    return found


def refuse_what_cannot_be_made_up(
    func: PrimFunc, values: Mapping[int, Values], given: Mapping[int, Any]
) -> None:
    """Raise TuningError for an argument that no numbers can be chosen for and that is not given."""
    infos = ArgInfo.from_prim_func(func)  # sizes that are left open are refused here
    for position, choice in values.items():
        info = infos[position]
        assert isinstance(info, TensorInfo)
        problem = choice.why_none(info.shape)
        if problem is not None and position not in given:
            name = func.buffer_map[func.params[position]].name
            raise TuningError(
                f"the numbers in {name} cannot be made up: {problem}; give an array with "
                f'input_data={{"{name}": ...}}'
            )
