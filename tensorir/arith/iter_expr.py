"""Pieces of iterators: the terms in which index expressions are analysed.

A *mark* is an iterator that takes every value of `[0, extent)`: a loop variable less its minimum,
or a sum of pieces that was fused to one iterator. A *split* is the piece
`(mark // lower_factor) % extent * scale` of a mark. A *sum* adds splits and a base that contains
no iterator. Numbers are ints where they are known and expressions where they are symbolic.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from tensorir.arith.scalar import Scalar, as_scalar
from tensorir.dtype import INT32, DataType
from tensorir.errors import TensorIRError
from tensorir.expr import PrimExpr


class IterMapLevel(IntEnum):
    """How strictly the pieces of an iterator must fit together."""

    BIJECTIVE = 0
    """Every value of every iterator appears exactly once."""
    SURJECTIVE = 1
    """The indices are independent of one another; parts of an iterator may be unused."""
    NO_CHECK = 3
    """Like surjective, but iterators may be padded to whatever size the divisions need."""


class NotAffineError(TensorIRError):
    """An index is not made of pieces of iterators; `reason` says what is in the way.

    `culprit` is the expression concerned; it is printed only if somebody asks for the text,
    because most of these errors are caught and dropped.
    """

    def __init__(self, reason: str, culprit: object = None) -> None:
        super().__init__(reason, culprit)
        self.reason = reason
        self.culprit = culprit

    def __str__(self) -> str:
        return self.reason if self.culprit is None else f"`{self.culprit}`: {self.reason}"


class IterMark:
    """An iterator that takes the values `[0, extent)`.

    `source` is what has these values: a variable, a variable less its minimum, or a sum.
    """

    __slots__ = ("extent", "source")

    def __init__(self, source: PrimExpr | IterSumExpr, extent: Scalar) -> None:
        self.source = source
        self.extent = as_scalar(extent)

    @property
    def dtype(self) -> DataType:
        """The type of the iterator's values."""
        return self.source.dtype

    def __repr__(self) -> str:
        return f"IterMark({self.source}, extent={self.extent})"


class IterSplitExpr:
    """The piece `(source // lower_factor) % extent * scale` of an iterator.

    Without the other arguments it is the whole iterator.
    """

    __slots__ = ("extent", "lower_factor", "scale", "source")

    def __init__(
        self,
        source: IterMark,
        lower_factor: Scalar = 1,
        extent: Scalar | None = None,
        scale: Scalar = 1,
    ) -> None:
        self.source = source
        self.lower_factor = as_scalar(lower_factor)
        self.extent = source.extent if extent is None else as_scalar(extent)
        self.scale = as_scalar(scale)

    @property
    def dtype(self) -> DataType:
        """The type of the piece's values."""
        return self.source.dtype

    def scaled(self, scale: Scalar) -> IterSplitExpr:
        """Return the same piece with another scale."""
        made = IterSplitExpr.__new__(IterSplitExpr)
        made.source = self.source
        made.lower_factor = self.lower_factor
        made.extent = self.extent
        made.scale = scale
        return made

    def is_same_piece(self, other: IterSplitExpr) -> bool:
        """Say whether both are the same piece of the same iterator, whatever their scales."""
        return bool(
            self.source is other.source
            and self.lower_factor == other.lower_factor
            and self.extent == other.extent
        )

    def __repr__(self) -> str:
        return (
            f"IterSplitExpr({self.source}, lower_factor={self.lower_factor}, "
            f"extent={self.extent}, scale={self.scale})"
        )


class IterSumExpr:
    """The sum of the pieces `args` and of `base`, which contains no iterator."""

    __slots__ = ("_dtype", "args", "base")

    def __init__(
        self, args: Iterable[IterSplitExpr], base: Scalar = 0, dtype: DataType | None = None
    ) -> None:
        self.args = tuple(args)
        self.base = as_scalar(base)
        self._dtype = dtype

    @property
    def dtype(self) -> DataType:
        """The type of the sum: as given, else that of its parts."""
        if self._dtype is not None:
            return self._dtype
        if self.args:
            return self.args[0].dtype
        return self.base.dtype if isinstance(self.base, PrimExpr) else INT32

    def __repr__(self) -> str:
        return f"IterSumExpr([{', '.join(map(repr, self.args))}], base={self.base})"
