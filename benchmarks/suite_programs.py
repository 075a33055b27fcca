"""The programs of the suite, by name.

`MM128` and `MM1024` are square matrix products, `MM131x257x65` has 131 rows, 257 columns and sums
of 65; the others are those of `tensorir.workloads`, in their first configuration (`C2D`) or another
one (`C2D[3]`), with what changes in it (`C2D(h=31,co=77)`, `C2D[3](stride=2)`).
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Final

from tensorir import te, workloads
from tensorir.function import IRModule, PrimFunc

_LARGEST: Final = 300
_MOST_OPERATIONS: Final = 2e9
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
    matmul = re.fullmatch(r"MM([1-9]\d*)(?:x([1-9]\d*)x([1-9]\d*))?", name)
    if matmul:
        n, m, k = (int(size or matmul[1]) for size in matmul.groups())
        return Program(name, _named(_matmul(n, m, k)), "MM", {"n": n, "m": m, "k": k})
    workload = re.fullmatch(r"([A-Z]\w*?)(?:\[(\d+)\])?(?:\((\w+=\d+(?:,\w+=\d+)*)\))?", name)
    if workload is None or workload[1] not in workloads.WORKLOADS:
        raise ValueError(
            f"there is no program {name!r} in the suite; there are {', '.join(NAMES)}, each but "
            "the first two also as NAME[configuration](changes), such as C2D[3](h=31,co=77), and "
            "matrix products as MM131x257x65"
        )
    kind, index = workloads.get(workload[1]), int(workload[2] or 0)
    pairs = (change.split("=") for change in (workload[3] or "").split(",") if change)
    changes = {key: int(value) for key, value in pairs}
    func = _named(kind.create(index, **changes))
    return Program(name, func, kind.name, kind.parameters(index, **changes))


def random_names(count: int, seed: int) -> list[str]:
    """Return names of matrix products and convolutions with extents from 1 to 300, in turns.

    Those that take more than 2e9 operations are left out, since measuring them takes too long.
    """
    rng = random.Random(seed)
    names: list[str] = []
    while len(names) < count:
        a, b, c, d = (rng.randint(1, _LARGEST) for _ in range(4))
        if len(names) % 2 == 0:
            names.append(f"MM{a}x{b}x{c}")
            continue
        kernel, stride = rng.choice((1, 3, 5)), rng.choice((1, 2))
        if 2 * a * b * c * d * (kernel / stride) ** 2 <= _MOST_OPERATIONS and min(a, b) >= kernel:
            changes = f"h={a},w={b},ci={c},co={d},kernel={kernel},stride={stride}"
            names.append(f"C2D({changes},padding={kernel // 2})")
    return names


def _named(func: PrimFunc) -> PrimFunc:
    return func.with_attr("global_symbol", "main").with_attr("tir.noalias", True)


def _matmul(n: int, m: int, depth: int) -> PrimFunc:
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])
