"""The programs of the suite, by name.

`MM128` and `MM1024` are square matrix products; the others are those of `tensorir.workloads`, in
their first configuration (`C2D`) or another one (`C2D[3]`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tensorir import te, workloads
from tensorir.function import IRModule, PrimFunc

NAMES: Final = ("MM128", "MM1024", *workloads.WORKLOADS)


@dataclass(frozen=True)
class Program:
    """A function, and what a peer has to know to compute the same with an operator of its own."""

    name: str
    func: PrimFunc
    operator: str
    parameters: dict[str, int]

    @property
    def mod(self) -> IRModule:
        """The function in a module of its own."""
        return IRModule({"main": self.func})

    @property
    def shapes(self) -> list[list[int]]:
        """The shapes of the arguments; the last one is the output."""
        buffers = [self.func.buffer_map[param] for param in self.func.params]
        return [[int(n) for n in buffer.shape] for buffer in buffers]  # type: ignore[call-overload]


def program(name: str) -> Program:
    """Return a program by its name; ValueError says which names there are."""
    matmul = re.fullmatch(r"MM([1-9]\d*)", name)
    if matmul:
        n = int(matmul[1])
        return Program(name, _named(_matmul(n)), "MM", {"n": n})
    workload = re.fullmatch(r"([A-Z]\w*)(?:\[(\d+)\])?", name)
    if workload is None or workload[1] not in workloads.WORKLOADS:
        raise ValueError(
            f"there is no program {name!r} in the suite; there are {', '.join(NAMES)}, each but "
            "the first two also as NAME[configuration], such as C2D[3]"
        )
    kind, index = workloads.get(workload[1]), int(workload[2] or 0)
    return Program(name, _named(kind.create(index)), kind.name, kind.parameters(index))


def _named(func: PrimFunc) -> PrimFunc:
    return func.with_attr("global_symbol", "main").with_attr("tir.noalias", True)


def _matmul(n: int) -> PrimFunc:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])
