"""The programs of the suite, by name.

`MM128` and `MM1024` are square matrix products, `MM131x257x65` has 131 rows, 257 columns and sums
of 65. The layer norm, the sums and the maxima of rows are `LNM`, `SUM` and `MAX`, by default of 64
rows of 1,000: `SUM(m=1,n=65536)`. The others are those of `tensorir.workloads`, in their first
configuration (`C2D`) or another one (`C2D[3]`), with changes (`C2D(h=31,co=77)`,
`C2D[3](stride=2)`).
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
"""The programs that are measured by default."""
ROWS: Final = ("LNM", "SUM", "MAX")
EPSILON: Final = 1e-5
"""The number that the layer norm adds to the variance."""


@dataclass(frozen=True)
class Program:
    """A function, and the operator and parameters with which a peer computes the same."""

    name: str
    func: PrimFunc
    operator: str
    parameters: dict[str, int]

    @property
    def mod(self) -> IRModule:
        """The function in a module."""
        return IRModule({"main": self.func})

    @property
    def shapes(self) -> list[list[int]]:
        """The shapes of the arguments; the last one is the output."""
        buffers = [self.func.buffer_map[param] for param in self.func.params]
        return [[int(n) for n in buffer.shape] for buffer in buffers]  # type: ignore[call-overload]


def program(name: str) -> Program:
    """Return a program by its name; ValueError lists the names."""
    matmul = re.fullmatch(r"MM([1-9]\d*)(?:x([1-9]\d*)x([1-9]\d*))?", name)
    if matmul:
        n, m, k = (int(size or matmul[1]) for size in matmul.groups())
        return Program(name, _named(_matmul(n, m, k)), "MM", {"n": n, "m": m, "k": k})
    workload = re.fullmatch(r"([A-Z]\w*?)(?:\[(\d+)\])?(?:\((\w+=\d+(?:,\w+=\d+)*)\))?", name)
    if workload is None or workload[1] not in (*workloads.WORKLOADS, *ROWS):
        raise ValueError(
            f"there is no program {name!r} in the suite; there are {', '.join((*NAMES, *ROWS))}, "
            "each but the first two also as NAME[configuration](changes), such as "
            "C2D[3](h=31,co=77), and matrix products as MM131x257x65"
        )
    pairs = (change.split("=") for change in (workload[3] or "").split(",") if change)
    changes = {key: int(value) for key, value in pairs}
    if workload[1] in ROWS:
        sizes = {"m": 64, "n": 1000, **changes}
        return Program(name, _named(_of_rows(workload[1], **sizes)), workload[1], sizes)
    kind, index = workloads.get(workload[1]), int(workload[2] or 0)
    func = _named(kind.create(index, **changes))
    return Program(name, func, kind.name, kind.parameters(index, **changes))


def random_names(count: int, seed: int) -> list[str]:
    """Return names of matrix products and convolutions with extents from 1 to 300, alternating.

    Programs of more than 2e9 operations are left out, since measuring them takes too long.
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


def _of_rows(kind: str, m: int, n: int) -> PrimFunc:
    a, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), "k")
    if kind != "LNM":
        reduce = te.sum if kind == "SUM" else te.max
        return te.create_prim_func([a, te.compute((m,), lambda i: reduce(a[i, k], axis=k), "R")])
    gamma, beta = te.placeholder((n,), name="gamma"), te.placeholder((n,), name="beta")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda first, second: (te.const(0, first), te.const(0, second)),
    )
    total, squares = te.compute(
        (m,), lambda i: both((a[i, k], a[i, k] * a[i, k]), axis=k), name="sums"
    )
    mean = te.compute((m,), lambda i: total[i] / n, name="mean")
    scale = te.compute(
        (m,), lambda i: te.rsqrt(squares[i] / n - mean[i] * mean[i] + EPSILON), name="scale"
    )
    out = te.compute(
        (m, n), lambda i, j: (a[i, j] - mean[i]) * scale[i] * gamma[j] + beta[j], name="out"
    )
    return te.create_prim_func([a, gamma, beta, out])
