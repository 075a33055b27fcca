"""Descriptions of the arguments of a program, for databases and other processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from search.errors import TuningError
from search.runner.measure_candidate import without_layout_rewrite
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm

if TYPE_CHECKING:
    from tensorir.function import IRModule, PrimFunc


class ArgInfo:
    """The description of one argument, a tensor: its dtype and extents."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: str, shape: Sequence[int]) -> None:
        self.dtype = DataType(dtype)
        self.shape = tuple(int(extent) for extent in shape)

    def as_json(self) -> list[Any]:
        """Return `["TENSOR", dtype, [extents]]`."""
        return ["TENSOR", str(self.dtype), list(self.shape)]

    def __str__(self) -> str:
        return f'TensorInfo("{self.dtype}", {list(self.shape)})'

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArgInfo) and self.as_json() == other.as_json()

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    @staticmethod
    def from_json(json_obj: Any) -> ArgInfo:
        """Return the argument of a description by `as_json`; IRValueError for anything else."""
        match json_obj:
            case ["TENSOR", str(dtype), [*shape]] if all(type(extent) is int for extent in shape):
                try:
                    return ArgInfo(dtype, shape)
                except ValueError as error:
                    raise IRValueError(f"invalid description of an argument: {error}") from error
        raise IRValueError(
            f'an argument is described by ["TENSOR", dtype, [extents]], got {json_obj!r}'
        )

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[ArgInfo]:
        """Return one description for each parameter.

        Raises TuningError for a scalar parameter or a buffer whose shape is not constant: such a
        program cannot be measured before it is specialised.
        """
        infos: list[ArgInfo] = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                raise TuningError(
                    f"parameter {param.name!r} is a scalar, and only buffers can get random values "
                    "for measuring; fix its value with PrimFunc.specialize"
                )
            if not all(isinstance(extent, IntImm) for extent in buffer.shape):
                extents = ", ".join(map(str, buffer.shape))
                raise TuningError(
                    f"buffer {buffer.name!r} has the symbolic shape ({extents}); "
                    "give it extents with PrimFunc.specialize before tuning"
                )
            shape = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
            infos.append(ArgInfo(buffer.dtype, shape))
        return infos

    @staticmethod
    def from_entry_func(mod: IRModule, remove_preproc: bool = True) -> list[ArgInfo]:
        """Return the arguments of the entry function of a module.

        With `remove_preproc`, blocks that rewrite the layout of weights are removed first, so that
        the shapes are the rewritten ones.
        """
        if remove_preproc:
            mod = without_layout_rewrite(mod)
        return ArgInfo.from_prim_func(mod.prim_func(entry_name(mod)))


TensorInfo = ArgInfo
PyArgInfo = ArgInfo


def entry_name(mod: IRModule) -> str:
    """Return the name of the entry function, which is not a graph function.

    It is the one with the attribute `tir.is_entry_func`, else `main`, else the only one;
    TuningError if there is none.
    """
    functions = mod.prim_funcs()
    for name, func in functions.items():
        flag = func.attrs.get("tir.is_entry_func")
        if isinstance(flag, IntImm) and flag.value:
            return name
    if "main" in functions:
        return "main"
    if len(functions) == 1:
        return next(iter(functions))
    raise TuningError(
        f"the module has no entry function, only {sorted(functions)}; call one main, or give one "
        "the attribute tir.is_entry_func"
    )
