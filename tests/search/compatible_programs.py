"""Programs in several sizes, as text, and records of them."""

from __future__ import annotations

from schedule import Schedule
from search.database import Database, TuningRecord
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm
from tests.search.anchored_programs import TARGET


def product(n: int, m: int, k: int) -> IRModule:
    """Return a product of matrices [n, k] and [k, m]."""
    return _module(f"""
@T.prim_func
def main(
    A: T.Buffer(({n}, {k}), "float32"),
    B: T.Buffer(({k}, {m}), "float32"),
    C: T.Buffer(({n}, {m}), "float32"),
):
    for i, j, k in T.grid({n}, {m}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")


def convolution(
    batch: int = 1, size: int = 8, channels: int = 4, window: int = 3, stride: int = 1, pad: int = 1
) -> IRModule:
    """Return a convolution of square images [batch, size, size, 4] with as many zeros around."""
    padded = size + 2 * pad
    out = (padded - window) // stride + 1
    step = "" if stride == 1 else f" * {stride}"
    return _module(f"""
@T.prim_func
def main(
    x: T.Buffer(({batch}, {size}, {size}, 4), "float32"),
    w: T.Buffer(({window}, {window}, 4, {channels}), "float32"),
    y: T.Buffer(({batch}, {out}, {out}, {channels}), "float32"),
):
    p = T.alloc_buffer(({batch}, {padded}, {padded}, 4))
    for n, i, j, c in T.grid({batch}, {padded}, {padded}, 4):
        with T.block("p"):
            vn, vi, vj, vc = T.axis.remap("SSSS", [n, i, j, c])
            p[vn, vi, vj, vc] = T.if_then_else(
                {pad} <= vi and vi < {size + pad} and {pad} <= vj and vj < {size + pad},
                x[vn, vi - {pad}, vj - {pad}, vc],
                T.float32(0),
            )
    for n, i, j, f, r, s, c in T.grid({batch}, {out}, {out}, {channels}, {window}, {window}, 4):
        with T.block("y"):
            vn, vi, vj, vf, vr, vs, vc = T.axis.remap("SSSSRRR", [n, i, j, f, r, s, c])
            with T.init():
                y[vn, vi, vj, vf] = T.float32(0)
            y[vn, vi, vj, vf] = (
                y[vn, vi, vj, vf] + p[vn, vi{step} + vr, vj{step} + vs, vc] * w[vr, vs, vc, vf]
            )
""")


def _module(text: str) -> IRModule:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return IRModule({"main": func})


def commit(database: Database, mod: IRModule, sch: Schedule, seconds: float = 1e-6) -> TuningRecord:
    """Commit a schedule of a program as a record."""
    record = TuningRecord(sch.trace, database.commit_workload(mod), [seconds], TARGET)
    database.commit_tuning_record(record)
    return record


def tiled_product(mod: IRModule) -> Schedule:
    """Tile a product of matrices by 4 x 8, the reduction by 4."""
    sch = Schedule(mod)
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    tiles = []
    for loop, inner in zip(loops, (4, 8, 4), strict=True):
        extent = sch.get(loop).extent
        assert isinstance(extent, IntImm)
        factors = sch.sample_perfect_tile(loop, n=2, decision=[extent.value // inner, inner])
        tiles.append(sch.split(loop, factors))
    (i0, i1), (j0, j1), (k0, k1) = tiles
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.vectorize(j1)
    return sch
