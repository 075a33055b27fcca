"""The `R` namespace: everything that a graph function may call, usable from Python as well.

Operators are found in their registry, so one that is added later is in the namespace at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tensorir.relax.expr import ExternFunc
from tensorir.relax.operator import Operator
from tensorir.script import frames
from tensorir.script import graph_annotations as infos
from tensorir.script import graph_values as values
from tensorir.script.constants import array_of_bytes
from tensorir.script.namespace import Namespace


def _operators(prefix: str) -> Namespace:
    """Return the names of the operators that begin with `prefix`, which ends in a dot or is ""."""

    def found(name: str) -> Any:
        if Operator.exists(prefix + name):
            call = partial(values.operator_call, Operator.get(prefix + name))
            call.__doc__ = f"Call the operator {prefix}{name}."
            return call
        if any(known.startswith(f"{prefix}{name}.") for known in Operator.names()):
            return _operators(f"{prefix}{name}.")
        return None

    def names() -> set[str]:
        rests = (n[len(prefix) :] for n in Operator.names() if n.startswith(prefix))
        return {rest.split(".")[0] for rest in rests}

    return Namespace(f"R.{prefix}".rstrip("."), {} if prefix else _TABLE, found, names, _ADVICE)


_ADVICE = (
    "; R.call_tir calls a tensor function, R.call_dps_packed a library function, and "
    "R.emit_te makes a tensor function of a tensor expression"
)


_TABLE: dict[str, Any] = {
    "Tensor": infos.tensor,
    "Tuple": infos.tuple_of,
    "Shape": infos.shape,
    "Prim": infos.prim,
    "Callable": infos.function,
    "Object": infos.object_,
    "Any": infos.object_,
    "call_tir": values.call_tir,
    "call_tir_inplace": values.call_tir_inplace,
    "call_dps_packed": values.call_dps_packed,
    "call_packed": values.call_packed,
    "call_pure_packed": values.call_pure_packed,
    "emit_te": values.emit_te,
    "match_cast": values.match_cast,
    "const": values.const,
    "array": array_of_bytes,
    "shape": values.shape,
    "prim_value": values.prim_value,
    "str": values.string,
    "dtype": values.dtype,
    "tuple": values.tuple_of,
    "ExternFunc": ExternFunc,
    "dataflow": values.dataflow,
    "output": values.output,
    "func_attr": frames.func_attr,
}
OLD_NAMES = {name: _TABLE[name] for name in ("Tensor", "Tuple", "Shape", "Callable", "Object")}
"""Names of annotations that older releases write without `R.`."""

R: Any = _operators("")
