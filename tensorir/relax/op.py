"""The calls that every graph function may make, under the names of TVM's `relax.op`."""

from tensorir.relax.calls import (
    call_dps_packed,
    call_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
)

__all__ = ["call_dps_packed", "call_packed", "call_pure_packed", "call_tir", "call_tir_inplace"]
