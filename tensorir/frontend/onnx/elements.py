"""The facts that the elements of a sequence share."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import IRTypeError
from tensorir.relax.relations import common_base
from tensorir.relax.struct_info import StructInfo, TensorStructInfo


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
