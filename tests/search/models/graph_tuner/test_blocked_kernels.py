"""Kernels in blocks of channels, and layouts of graphs for which schedules of them are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import codegen
from schedule import Schedule
from search.database import MemoryDatabase
from search.models.graph_tuner import blocked_kernels, tune_layouts
from search.models.graph_tuner.candidates import blocked_kernel, blocked_layouts, read_as_rows
from search.models.graph_tuner.kernel_graph import KernelCall, kernel_graphs, with_layouts
from tensorir import IRModule, PrimFunc, assert_structural_equal, parse, workloads
from tensorir.indices.index_map import IndexMap
from tensorir.relax.expr import GraphVar
from tests.search.anchored_programs import TARGET, commit

MODEL = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def conv(X: T.Buffer((1, 32, 4, 4), "float32"), W: T.Buffer((32, 32, 3, 3), "float32"), Y: T.Buffer((1, 32, 4, 4), "float32")):
        T.func_attr({"tir.noalias": True})
        P = T.alloc_buffer((1, 32, 6, 6))
        for n, c, y, x in T.grid(1, 32, 6, 6):
            with T.block("P"):
                vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
                P[vn, vc, vy, vx] = T.if_then_else(1 <= vy and vy < 5 and 1 <= vx and vx < 5, X[vn, vc, vy - 1, vx - 1], T.float32(0))
        for n, o, y, x, c, r, s in T.grid(1, 32, 4, 4, 32, 3, 3):
            with T.block("Y"):
                vn, vo, vy, vx, vc, vr, vs = T.axis.remap("SSSSRRR", [n, o, y, x, c, r, s])
                with T.init():
                    Y[vn, vo, vy, vx] = T.float32(0)
                Y[vn, vo, vy, vx] = Y[vn, vo, vy, vx] + P[vn, vc, vy + vr, vx + vs] * W[vo, vc, vr, vs]

    @T.prim_func(private=True)
    def relu(A: T.Buffer((1, 32, 4, 4), "float32"), B: T.Buffer((1, 32, 4, 4), "float32")):
        for n, c, y, x in T.grid(1, 32, 4, 4):
            with T.block("B"):
                vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
                B[vn, vc, vy, vx] = T.max(A[vn, vc, vy, vx], T.float32(0))

    @R.function
    def main(x: R.Tensor((1, 32, 4, 4), "float32"), w: R.Tensor((32, 32, 3, 3), "float32")):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.conv, (x, w), out_sinfo=R.Tensor((1, 32, 4, 4), "float32"))
            a = R.call_tir(cls.relu, (y,), out_sinfo=R.Tensor((1, 32, 4, 4), "float32"))
            z = R.call_tir(cls.conv, (a, w), out_sinfo=R.Tensor((1, 32, 4, 4), "float32"))
            R.output(z)
        return z
""")
assert isinstance(MODEL, IRModule)

WIDE = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1"

X, W = (np.random.default_rng(0).random(s, "float32") for s in ((1, 32, 4, 4), (32, 32, 3, 3)))


def test_a_kernel_is_computed_in_blocks_of_channels() -> None:
    kernels = blocked_kernels(MODEL, WIDE)
    assert list(kernels.functions) == ["conv"]  # relu follows any layout
    assert "P = T.alloc_buffer((1, 2, 6, 6, 16))" in kernels.script()


@pytest.mark.parametrize(
    ("target", "channels"),
    [
        ("-mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", 16),
        ("-mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -vector-width=256", 8),
        ("-mtriple=x86_64-linux-gnu -mcpu=znver3", 8),
        ("-mtriple=x86_64-linux-gnu -mcpu=x86-64-v2", 4),
        ("-mtriple=aarch64-linux-gnu", 4),
    ],
)
def test_a_block_has_the_channels_of_a_vector(target: str, channels: int) -> None:
    kernel = blocked_kernels(MODEL, f"llvm {target}").prim_func("conv")
    data, _, result = shapes(kernel)
    assert data == result == (1, 32 // channels, 4, 4, channels)


@pytest.mark.parametrize("channels", [8, 24])
def test_channels_that_are_no_whole_blocks_stay(channels: int) -> None:
    mod = parse(MODEL.script().replace("32", str(channels)).replace(f"float{channels}", "float32"))
    assert isinstance(mod, IRModule)
    assert not blocked_kernels(mod, WIDE).functions


def test_a_schedule_in_blocks_can_read_and_write_rows_and_blocks() -> None:
    _, graphs = kernel_graphs(MODEL)
    call = next(iter(graphs["main"].calls.values()))
    kernel = blocked_kernel(call, 16)
    assert kernel is not None
    in_rows = read_as_rows(kernel, call, 16)
    assert shapes(in_rows) == [(1, 32, 4, 4), (32, 32, 3, 3), (1, 32, 4, 4)]
    layouts = dict(zip(call.slots, blocked_layouts(call, 16), strict=True))
    assert_structural_equal(with_layouts(in_rows, layouts), kernel)


def database() -> MemoryDatabase:
    """Return a database with a schedule of the blocked kernel, with vectors of channels."""
    kernel = blocked_kernels(MODEL, TARGET).prim_func("conv")
    program = IRModule({"main": kernel.with_attr("global_symbol", "main")})
    sch = Schedule(program)
    block = sch.get_block("Y")
    loops = sch.get_loops(block)
    sch.reorder(*loops[5:], loops[4])
    sch.vectorize(sch.get_loops(block)[-1])
    result = MemoryDatabase()
    commit(result, sch, program, 1e-6)
    return result


def shapes(kernel: PrimFunc) -> list[tuple[int, ...]]:
    buffers = [kernel.buffer_map[param] for param in kernel.params]
    return [tuple(int(str(extent)) for extent in buffer.shape) for buffer in buffers]


def in_blocks(kernel: PrimFunc) -> int:
    """Return how many parameters of a kernel are in blocks."""
    return sum(len(shape) == 5 for shape in shapes(kernel))


def test_a_schedule_that_was_found_in_blocks_is_taken() -> None:
    """The better, the more of the arguments are in blocks."""

    def measure(kernels: Sequence[PrimFunc]) -> list[float]:
        return [
            9e-6 if "vectorized" not in k.script() else 3e-6 - in_blocks(k) * 1e-6 for k in kernels
        ]

    tuning = tune_layouts(MODEL, database(), TARGET, measure=measure)
    layouts = [row.layouts for row in tuning.kernels]
    assert [text.partition(":")[0] for text in layouts] == ["Y", "A", "X"]
    assert tuning.before == pytest.approx(27e-6)
    assert tuning.after < tuning.before / 3
    found, expected = (
        codegen.VirtualMachine(codegen.vm_build(mod, TARGET, default_schedules=False))["main"](X, W)
        for mod in (tuning.mod, MODEL)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("T2D", {"h": 16, "w": 4, "ci": 4, "co": 8}),
        ("CBR", {"h": 32, "w": 8, "ci": 4, "co": 8}),
    ],
)
def test_in_blocks_of_whatever_is_dimension_1_the_same_is_computed(
    name: str, sizes: dict[str, int]
) -> None:
    """In NHWC these are blocks of rows, which no search would gain from."""
    func = workloads.create(name, 0, **sizes)
    args = tuple(GraphVar(f"x{k}") for k in range(len(func.params) - 1))
    call = KernelCall(GraphVar("y"), name, func, args, tuple(range(len(func.params))))
    kernel = blocked_kernel(call, 16)
    assert kernel is not None
    rng = np.random.default_rng(0)
    *arrays, out = [rng.random(shape, "float32") for shape in shapes(func)]
    layouts = blocked_layouts(call, 16)
    held = [in_layout(*pair) for pair in zip(layouts, [*arrays, out], strict=True)]
    for version, values in ((func, [*arrays, out]), (kernel, held)):
        built = codegen.build(
            IRModule({"main": version.with_attr("global_symbol", "main")}), TARGET
        )
        built["main"](*values)
    np.testing.assert_allclose(held[-1], in_layout(layouts[-1], out), rtol=1e-4)


def in_layout(layout: IndexMap | None, array: np.ndarray) -> np.ndarray:
    return array if layout is None else layout.map_ndarray(array)
