"""The result of tuning the layouts of a graph: the module, the choices and their costs."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import NamedTuple

from tensorir.function import IRModule
from tensorir.text_table import aligned, html_table


class KernelRow(NamedTuple):
    """The choice and the cost of a kernel call."""

    function: str
    """The graph function."""
    result: str
    """The variable that holds its result."""
    kernel: str
    layouts: str
    candidates: int
    """The number of choices of layouts that there were."""
    before: float | None
    """Seconds per call with everything row-major, None if it could not be measured."""
    after: float | None


class TransformRow(NamedTuple):
    """A tensor that is brought from one layout to another."""

    function: str
    tensor: str
    layouts: str
    seconds: float


@dataclass(frozen=True)
class LayoutTuning:
    """A module with the layouts that were chosen, and why; prints as tables.

    The sums are of kernels measured alone, with their arguments in the caches. A kernel that could
    not be measured counts as nothing on both sides, and stays as it is.
    """

    mod: IRModule
    kernels: tuple[KernelRow, ...]
    transforms: tuple[TransformRow, ...]
    before: float
    """Seconds of all kernels, each in the fastest form that leaves everything row-major."""
    after: float
    """Seconds of all kernels and transforms as they were chosen."""
    exact: bool
    """True if no other choice among the candidates has a lesser sum."""

    @property
    def table(self) -> str:
        """The kernels, the transforms and the sums as text."""
        parts = [aligned(rows) for rows in self._tables()]
        return "\n\n".join([*parts, self._summary()])

    def _tables(self) -> list[list[tuple[str, ...]]]:
        heading = ("function", "result", "kernel", "layouts", "choices", "us before", "us after")
        kernels: list[tuple[str, ...]] = [heading]
        for row in self.kernels:
            known = (str(row.candidates), _microseconds(row.before), _microseconds(row.after))
            kernels.append((row.function, row.result, row.kernel, row.layouts, *known))
        if not self.transforms:
            return [kernels]
        transforms: list[tuple[str, ...]] = [("function", "tensor", "transform", "us")]
        for step in self.transforms:
            seconds = _microseconds(step.seconds)
            transforms.append((step.function, step.tensor, step.layouts, seconds))
        return [kernels, transforms]

    def _summary(self) -> str:
        found = "exact" if self.exact else "heuristic: a better choice may exist"
        gain = f"{self.before / self.after:.2f} times as fast" if self.after else "nothing measured"
        return (
            f"sum: {_microseconds(self.before)} us before, {_microseconds(self.after)} us after, "
            f"{gain} ({found})"
        )

    def __str__(self) -> str:
        return self.table

    def __repr__(self) -> str:
        return self.table

    def _repr_html_(self) -> str:
        tables = "".join(html_table(rows) for rows in self._tables())
        return f"{tables}<p>{html.escape(self._summary())}</p>"


def _microseconds(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds * 1e6:.2f}"
