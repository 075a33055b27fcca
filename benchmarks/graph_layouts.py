"""Chains of kernels before and after their layouts are tuned together.

Each kernel is tuned alone first, then in blocks of channels where it has them; with both,
`graph_tuner.tune_layouts` chooses schedules, and the layouts of the tensors between them. The graph
is timed end to end in both forms, in turns in one process, and the times are set beside the sums
that the tuner predicted.

    python -m benchmarks.graph_layouts                          all chains, 64 trials for a kernel
    python -m benchmarks.graph_layouts --chain convolutions --trials 256
    python -m benchmarks.graph_layouts --work-dir DIR           keeps the records and times

convolutions   three of 64 channels over an image of 30 x 30 (NCHW), of 1 x 1, 3 x 3 and 1 x 1, each
               with a ReLU
short_rows     three of 3 x 3 with padding, of 128 channels over an image of 7 x 7, each with a ReLU
matmuls        three products of 128 rows of 1024 floats with square weights, each with a ReLU; the
               rows of the left operand are 4 KiB apart, so that they compete for places in L1
transposed     two products of matrices of 512 x 512, with kernels behind them that turn the result
               over, add a bias and take its positive part

All weights are constants, packed as the schedules like it when the graph is built.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

import codegen
import search as ms
from benchmarks.peers.serve import seconds_of
from benchmarks.side_by_side import Side, in_turns, markdown
from search.database import Database
from search.models.graph_tuner import blocked_kernels, tune_layouts
from tensorir import te
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.ops import max_
from tensorir.relax import BlockBuilder, TensorStructInfo, Var
from tensorir.relax.calls import call_tir
from tensorir.relax.expr import GraphExpr
from tensorir.topi.nn import conv2d
from tensorir.transform import AttachAttrLayoutFreeBuffers, BindParams, simplify_graph

TARGET: Final = "llvm --num-cores=1"
CHANNELS: Final = 64
IMAGE: Final = 30
WINDOWS: Final = (1, 3, 1)
SHORT: Final = 7
SHORT_CHANNELS: Final = 128
ROWS: Final = 128
FEATURES: Final = 1024
SIDE: Final = 512
SHORTEST: Final = 1e-3
"""The least seconds of a measurement: short, so that some are not interrupted."""
TITLES: Final = (
    "chain",
    "us of kernels before",
    "after",
    "speed-up predicted",
    "us end to end before",
    "after",
    "speed-up",
)


def convolutions() -> IRModule:
    """Return the graph of convolutions, its weights parameters."""
    kernels, shapes, weights = [], [(1, CHANNELS, IMAGE, IMAGE)], []
    for window in WINDOWS:
        kernels.append((f"conv{window}x{window}", convolution(shapes[-1][-1], window)))
        side = shapes[-1][-1] - window + 1
        shapes.append((1, CHANNELS, side, side))
        weights.append((CHANNELS, CHANNELS, window, window))
    return chain(kernels, shapes, weights)


def convolution(side: int, window: int, padding: int = 0, channels: int = CHANNELS) -> PrimFunc:
    """Return a convolution of a square image, and its ReLU."""
    image = te.placeholder((1, channels, side, side), "float32", "X")
    weight = te.placeholder((channels, channels, window, window), "float32", "W")
    return with_relu(image, weight, conv2d(image, weight, 1, padding, 1, 1, "NCHW", "OIHW"))


def short_rows() -> IRModule:
    """Return the graph of padded convolutions of a small image, its weights parameters."""
    shape, weight = (1, SHORT_CHANNELS, SHORT, SHORT), (SHORT_CHANNELS, SHORT_CHANNELS, 3, 3)
    kernel = convolution(SHORT, 3, 1, SHORT_CHANNELS)
    return chain([("convolution", kernel)] * 3, [shape] * 4, [weight] * 3)


def matmuls() -> IRModule:
    """Return the graph of products of matrices, its weights parameters."""
    shape, square = (ROWS, FEATURES), (FEATURES, FEATURES)
    x, w = te.placeholder(shape, "float32", "X"), te.placeholder(square, "float32", "W")
    k = te.reduce_axis((0, FEATURES), "k")
    y = te.compute(shape, lambda i, j: te.sum(x[i, k] * w[k, j], [k]), "Y")
    return chain([("matmul", with_relu(x, w, y))] * 3, [shape] * 4, [square] * 3)


def transposed() -> IRModule:
    """Return the graph of products, the result of each turned over by the kernel behind it."""
    shape = (SIDE, SIDE)
    x, w = te.placeholder(shape, "float32", "X"), te.placeholder(shape, "float32", "W")
    bias = te.placeholder((SIDE,), "float32", "W")
    k = te.reduce_axis((0, SIDE), "k")
    y = te.compute(shape, lambda i, j: te.sum(x[i, k] * w[k, j], [k]), "Y")
    product = ("product", te.create_prim_func([x, w, y]).with_attr("tir.noalias", True))
    turned = te.compute(shape, lambda i, j: x[j, i] + bias[i], "Y")
    turn = ("turn", with_relu(x, bias, turned))
    return chain([product, turn] * 2, [shape] * 5, [shape, (SIDE,)] * 2)


def with_relu(x: te.Tensor, w: te.Tensor, y: te.Tensor) -> PrimFunc:
    """Return the function of x and w that computes the positive part of y."""
    out = te.compute(y.shape, lambda *i: max_(y[i], 0.0), "Z")
    return te.create_prim_func([x, w, out]).with_attr("tir.noalias", True)


def chain(
    kernels: Sequence[tuple[str, PrimFunc]],
    shapes: Sequence[tuple[int, ...]],
    weights: Sequence[tuple[int, ...]],
) -> IRModule:
    """Return the graph in which each kernel reads what the one before gives, and a weight."""
    builder = BlockBuilder()
    x = Var("x", TensorStructInfo(shapes[0], "float32"))
    params = [Var(f"w{k}", TensorStructInfo(w, "float32")) for k, w in enumerate(weights)]
    with builder.function("main", [x, *params]):
        with builder.dataflow():
            value: GraphExpr = x
            for (name, kernel), weight, shape in zip(kernels, params, shapes[1:], strict=True):
                callee = builder.add_func(kernel.without_attr("global_symbol"), name)
                info = TensorStructInfo(shape, "float32")
                value = builder.emit(call_tir(callee, [value, weight], info))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    rng = np.random.default_rng(0)
    scale = 1 / np.sqrt(np.prod(weights[0][1:]))
    values = [(rng.standard_normal(w) * scale).astype("float32") for w in weights]
    constants = {f"w{k}": value for k, value in enumerate(values)}
    mod = BindParams("main", constants)(builder.get())
    return AttachAttrLayoutFreeBuffers(constants_only=True)(simplify_graph(mod))


CHAINS: Final[dict[str, Callable[[], IRModule]]] = {
    "convolutions": convolutions,
    "short_rows": short_rows,
    "matmuls": matmuls,
    "transposed": transposed,
}


def side(name: str, mod: IRModule, database: Database, x: np.ndarray) -> tuple[Side, np.ndarray]:
    """Return a graph that is built with the schedules of a database, and what it computes."""
    with database:
        executable = codegen.vm_build(mod, TARGET)
    main = codegen.VirtualMachine(executable, codegen.cpu())["main"]
    array = codegen.array(x)
    result = np.asarray(main(array)).copy()
    bound = main.prepare(array)
    return Side(name, lambda: seconds_of(bound, SHORTEST)), result


def compare(name: str, options: argparse.Namespace, folder: Path) -> list[str]:
    """Tune a chain, its kernels first; return its row of the table."""
    mod = CHAINS[name]()
    for kernels in (mod, blocked_kernels(mod, TARGET)):
        if kernels.prim_funcs():
            database = ms.tune_module(
                kernels,
                TARGET,
                folder / name,
                options.trials * len(kernels.prim_funcs()),
                num_trials_per_iter=min(64, options.trials),
                seed=options.seed,
            )
    start = time.monotonic()
    tuning = tune_layouts(mod, database, TARGET, work_dir=folder / name)
    print(f"\n{name}: layouts in {time.monotonic() - start:.1f} s\n{tuning}", flush=True)
    (param,) = mod["main"].params
    x = np.random.default_rng(1).standard_normal(param.struct_info.static_shape).astype("float32")
    before, expected = side("before", mod, database, x)
    after, result = side("after", tuning.mod, database, x)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
    # Where no layout changed both are the same graph, and a ratio would be noise.
    changed = tuning.after < tuning.before
    in_turns([before, after] if changed else [before], options.turns)
    predicted = ratio(tuning.before, tuning.after)
    measured = ratio(before.seconds, after.seconds if changed else before.seconds)
    return [name, *predicted, *measured]


def ratio(before: float, after: float) -> tuple[str, str, str]:
    """Return two times in microseconds and how many times as fast the second is."""
    return f"{before * 1e6:.1f}", f"{after * 1e6:.1f}", f"{before / after:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chain", choices=CHAINS, nargs="+", default=list(CHAINS))
    parser.add_argument("--trials", type=int, default=64, help="for each kernel")
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work-dir", type=Path, help="where the records go; kept only if given")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.work_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows = [compare(name, options, folder) for name in options.chain]
    print(f"\n{markdown([TITLES, *rows])}")


if __name__ == "__main__":
    main()
