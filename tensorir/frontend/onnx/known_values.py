"""Facts about the values of a model, in addition to shapes and dtypes, while it is read.

*Contents* are the elements of integer tensors, which shapes depend on. *Elements* are the struct
infos that the tensors of a sequence share. *Kinds* are the dtypes of integers of fewer than 8 bits,
which are stored in 8. The symbolic sizes are stored by their names in the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.contents import as_array, contents_of_call
from tensorir.frontend.onnx.dtypes import narrow_integer
from tensorir.frontend.onnx.limits import ImportLimits
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax import op
from tensorir.relax.block_builder import BlockBuilder
from tensorir.relax.expr import Constant, GraphCall, GraphExpr, ShapeExpr
from tensorir.relax.relations import common_base
from tensorir.relax.struct_info import PrimStructInfo, StructInfo, TensorStructInfo, TupleStructInfo

_MOST_SIZE: Final = 1 << 40
"""An upper bound that is assumed for symbolic sizes when integers are compared."""


class KnownValues:
    """The known values of one model; `builder` has the function under construction."""

    def __init__(self, builder: BlockBuilder, limits: ImportLimits) -> None:
        self._builder = builder
        self._limits = limits
        self._sizes: dict[str, Var] = {}
        self._taken: set[str] = set()
        self._analyzer = Analyzer()
        self._contents: dict[GraphExpr, NDArray[Any] | None] = {}
        """Contents are computed when a converter first needs them."""
        self._bound: dict[GraphExpr, GraphExpr] = {}
        self._elements: dict[GraphExpr, TensorStructInfo] = {}
        """The struct info of the elements of sequences, and of optional tensors."""
        self._optional_tensors: set[GraphExpr] = set()
        self._narrow: dict[GraphExpr, int] = {}
        """The ONNX number of the dtype of each tensor of integers of fewer than 8 bits."""

    # ------------------------------------------------------------------------------------ sizes

    def size(self, name: str) -> Var:
        """Return the symbolic size with a name."""
        if name not in self._sizes:
            self._sizes[name] = self.fresh_size(name)
        return self._sizes[name]

    def fresh_size(self, name: str) -> Var:
        """Return a new symbolic size, which is not negative."""
        var = self._fresh_variable(name)
        self._analyzer.bind(var, Range(0, _MOST_SIZE))
        return var

    def _fresh_variable(self, name: str) -> Var:
        base = chosen = identifier(name)
        number = 0
        while chosen in self._taken:
            number += 1
            chosen = f"{base}_{number}"
        self._taken.add(chosen)
        return Var(chosen, "int64")

    # ---------------------------------------------------------------------------------- kinds

    def remember_kind(self, value: GraphExpr, number: int) -> None:
        """Record that a tensor holds narrow integers, if `number` is such a dtype."""
        if narrow_integer(number) is not None:
            self._narrow[value] = number

    def narrow(self, value: GraphExpr) -> int | None:
        """Return the ONNX number of a tensor's narrow integer dtype; None for other dtypes."""
        return self._narrow.get(value)

    # ------------------------------------------------------------------------------- contents

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Emit a body that may not run: contents found inside are forgotten after it."""
        kept = dict(self._contents)
        try:
            yield
        finally:
            self._contents = kept

    def contents(self, value: GraphExpr) -> NDArray[Any] | None:
        """Return the known elements of a tensor; None if they are unknown."""
        if isinstance(value, Constant):
            return constant_contents(value)
        if value not in self._contents:
            self._contents[value] = self._compute_contents(value)
        return self._contents[value]

    def _compute_contents(self, value: GraphExpr) -> NDArray[Any] | None:
        if value in self._bound:
            return self.contents(self._bound[value])
        if not isinstance(value, GraphCall):
            return None
        return contents_of_call(value, self.contents, self._analyzer, self._limits)

    def bind(self, var: GraphExpr, value: GraphExpr) -> None:
        """Record the expression of a variable; its contents are computed from it on demand."""
        self._bound[var] = value

    def remember(self, value: GraphExpr, array: NDArray[Any] | None) -> None:
        """Record the elements of a tensor; None records nothing."""
        if array is not None:
            self._contents[value] = array

    def remember_like(self, value: GraphExpr, source: GraphExpr) -> None:
        """Copy the facts about `source` to an equal value."""
        self.bind(value, source)
        self.remember_elements(value, self.known_elements(source))
        if source in self._optional_tensors:
            self._optional_tensors.add(value)

    def remember_elements(self, value: GraphExpr, info: TensorStructInfo | None) -> None:
        """Record the struct info of a sequence's elements; None records nothing."""
        if info is not None:
            self._elements[value] = info

    def known_elements(self, value: GraphExpr) -> TensorStructInfo | None:
        """Return the struct info of the elements of a sequence or optional tensor, if known."""
        if value in self._elements:
            return self._elements[value]
        info = value.struct_info
        if not isinstance(info, TupleStructInfo) or not info.elements:
            return None
        return common_element(info.elements)

    def remember_optional_tensor(self, value: GraphExpr) -> None:
        """Record that an object is a tensor or absent."""
        self._optional_tensors.add(value)

    def is_optional_tensor(self, value: GraphExpr) -> bool:
        """Return True if an object is a tensor or absent."""
        return value in self._optional_tensors

    def integer_tensor(self, values: Sequence[int | PrimExpr], dtype: str = "int64") -> GraphExpr:
        """Return a tensor of integers with recorded contents; a use emits it."""
        array = as_array(values)
        if array.dtype != object:
            return Constant(array.astype(dtype))
        # A shape cannot hold negative numbers.
        least = min((n for n in array.flat if isinstance(n, int)), default=0)
        result: GraphExpr = op.shape_to_tensor(ShapeExpr([n - min(least, 0) for n in array.flat]))
        if least < 0:
            result = op.add(result, least)
        if dtype != "int64":
            result = op.astype(result, dtype)
        self._contents[result] = array
        return result

    def runtime_scalars(self, value: GraphExpr, what: str) -> list[PrimExpr]:
        """Emit the reading of an integer tensor at run time; return a variable for each element."""
        info = value.struct_info
        shape = info.static_shape if isinstance(info, TensorStructInfo) else None
        if shape is None or len(shape) > 1:
            raise IRValueError(
                f"the number of integers in {what} must be known while the model is read, got "
                f"{info}"
            )
        count = math.prod(shape)
        self._limits.check("max_parts", count, f"{what}: too many integers of one tensor")
        numbers = self._builder.emit(op.tensor_to_scalars(value, count=count))
        result: list[PrimExpr] = [self._fresh_variable("value") for _ in range(count)]
        self._builder.match_cast(
            numbers, TupleStructInfo(PrimStructInfo("int64", var) for var in result)
        )
        array = np.empty(shape, object)
        array.reshape(-1)[:] = result
        self._contents[value] = array
        return result

    def equal_sizes(
        self, operands: Sequence[GraphExpr], places: Sequence[Sequence[tuple[int, int]]]
    ) -> list[GraphExpr]:
        """Return operands whose sizes are assumed to be equal; see `OnnxNode.broadcast_operands`.

        Each of `places` is a list of sizes that must be equal: (operand number, axis).
        """
        shapes = []
        for value in operands:
            info = value.struct_info
            if not isinstance(info, TensorStructInfo) or info.shape is None:
                return list(operands)  # the operator reports the unknown shape
            shapes.append(list(info.shape))
        ranks = [len(shape) for shape in shapes]
        if not all(-ranks[k] <= axis < ranks[k] for group in places for k, axis in group):
            return list(operands)
        changed = set()
        for group in places:
            extents = [shapes[k][axis] for k, axis in group]
            for (k, axis), extent in zip(group, extents, strict=True):
                common = next((n for n in extents if isinstance(n, IntImm)), extents[0])
                if isinstance(extent, IntImm) or self._analyzer.can_prove_equal(extent, common):
                    continue
                shapes[k][axis] = common
                changed.add(k)
        result = []
        for k, value in enumerate(operands):
            info = value.struct_info
            assert isinstance(info, TensorStructInfo)
            checked = TensorStructInfo(shapes[k], info.dtype)
            result.append(self._builder.match_cast(value, checked) if k in changed else value)
        return result


def constant_contents(value: Constant) -> NDArray[Any] | None:
    """Return the elements of a constant; None if NumPy lacks its dtype."""
    dtype = value.struct_info.dtype if isinstance(value.struct_info, TensorStructInfo) else None
    plain = dtype is not None and (dtype.is_integral or dtype.is_float)
    return value.data if plain else None


def identifier(name: str) -> str:
    """Return a valid variable name."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{word}" if word[0].isdigit() else word


def common_element(infos: Sequence[StructInfo]) -> TensorStructInfo:
    """Return the struct info that several tensors share.

    Raises IRTypeError for values that are not tensors, and for tensors of several dtypes.
    """
    result = infos[0]
    for info in infos:
        if not isinstance(info, TensorStructInfo) or not isinstance(result, TensorStructInfo):
            raise IRTypeError(f"the elements of a sequence must be tensors, got {info}")
        if info.dtype != result.dtype:
            raise IRTypeError(f"the elements of a sequence are of {result.dtype} and {info.dtype}")
        base = common_base(result, info)
        assert isinstance(base, TensorStructInfo)
        result = base
    assert isinstance(result, TensorStructInfo)
    return TensorStructInfo(None, result.dtype, result.ndim)
