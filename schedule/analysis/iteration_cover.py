"""Whether a consumer runs only where its producer stores something."""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.arith import Analyzer
from tensorir.expr import IterVar, PrimExpr


def stays_within(
    read: Iterable[PrimExpr],
    reader_axes: Iterable[IterVar],
    stored: Iterable[PrimExpr],
    writer_axes: Iterable[IterVar],
) -> bool:
    """Say whether indices read stay within the bounds of indices stored, in every dimension.

    Conditions around the read do not count: where one is false, the consumer still runs, and an
    instance that corresponds to none of the producer would be lost if it followed the producer's
    loops.
    """
    reader, writer = Analyzer(), Analyzer()
    for analyzer, axes in ((reader, reader_axes), (writer, writer_axes)):
        for axis in axes:
            if axis.dom is not None:
                analyzer.bind(axis.var, axis.dom)
    for index, place in zip(read, stored, strict=True):
        wanted, given = reader.const_int_bound(index), writer.const_int_bound(place)
        if wanted.min_value < given.min_value or wanted.max_value > given.max_value:
            return False
    return True
