"""Grouped convolutions, compared with plain ones, ONNX Runtime and torch.

    python -m benchmarks.grouped_convolutions [--cores 1] [--trials 0] [--layout NHWC]
        [--target-mcpu znver3] [--window 1 3] [--stride 1 2] [--channels 4 8 16 24 32 48]

Each convolution has about 256 channels of 28x28 elements, in groups of so many, weights that are
packed ahead, a bias and a rectifier. The plain one has as many channels as a group and as many
pictures as there are groups: it does the same number of operations for each element. Figures are
GFLOPS: by the default schedule, after a search if `--trials` says how many, of the plain one, and
of the peers (`onnxruntime`, `torch`) that are installed, which compute on data in their own layout.
`ratio` is the best of ours over the plain one.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

import numpy as np

import search as ms
from benchmarks.side_by_side import kernel, markdown, tuned
from schedule import Schedule
from search.runner.measure_candidate import without_layout_rewrite
from tensorir import te
from tensorir.function import PrimFunc
from tensorir.topi.nn import conv2d

_CHANNELS: Final = 256
_SIZE: Final = 28
_ROUNDS: Final = 60
_LEAST_MS: Final = 0.3
"""A short measurement is seldom interrupted; the least of many counts."""


@dataclass(frozen=True)
class Convolution:
    """A convolution of square pictures, padded so that each element has a window."""

    layout: str
    window: int
    stride: int
    per_group: int
    groups: int
    pictures: int = 1

    @property
    def channels(self) -> int:
        """The channels of input and output."""
        return self.per_group * self.groups

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        side = -(-_SIZE // self.stride)
        taps = self.window**2 * self.per_group
        return 2 * self.pictures * side**2 * self.channels * taps

    def plain(self) -> Convolution:
        """Return the one without groups that does as much for each element."""
        return replace(self, groups=1, pictures=self.groups * self.pictures)

    def function(self) -> PrimFunc:
        """Return the program."""
        n, c, k, each = self.pictures, self.channels, self.window, self.per_group
        in_rows = self.layout == "NCHW"
        shape = (n, c, _SIZE, _SIZE) if in_rows else (n, _SIZE, _SIZE, c)
        x = te.placeholder(shape, name="x")
        w = te.placeholder((c, each, k, k) if in_rows else (k, k, each, c), name="w")
        b = te.placeholder((c,), name="b")
        kernel = "OIHW" if in_rows else "HWIO"
        y = conv2d(x, w, self.stride, k // 2, 1, self.groups, self.layout, kernel)
        axis = self.layout.index("C")
        z = te.compute(y.shape, lambda *i: te.max(y[i] + b[i[axis]], 0.0), name="relu")
        return te.create_prim_func([x, w, b, z]).with_attr("layout_free_buffers", [1])


def gflops(convolution: Convolution, sch: Schedule, target: str) -> float:
    """Return the speed of a scheduled convolution, whose weights are packed ahead."""
    mod = without_layout_rewrite(sch.mod)
    seconds = kernel("main", mod, target, _LEAST_MS, repeat=_ROUNDS).run()
    return convolution.operations / seconds / 1e9


def in_torch(convolution: Convolution, cores: int) -> Callable[[], Any]:
    """Return a call of torch's operator; ImportError without torch."""
    import torch  # noqa: PLC0415

    torch.set_num_threads(cores)
    c, k = convolution.channels, convolution.window
    layer = torch.nn.Conv2d(c, c, k, convolution.stride, k // 2, groups=convolution.groups).eval()
    x = torch.randn(convolution.pictures, c, _SIZE, _SIZE)
    if convolution.layout == "NHWC":
        layer = layer.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    layer.requires_grad_(False)
    return lambda: torch.relu_(layer(x))


def in_onnxruntime(convolution: Convolution, cores: int) -> Callable[[], Any]:
    """Return a call of a session of ONNX Runtime, which keeps NCHW; ImportError without it."""
    import onnxruntime  # noqa: PLC0415
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    n, c = convolution.pictures, convolution.channels
    k, each = convolution.window, convolution.per_group
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((c, each, k, k), np.float32),
        "b": rng.standard_normal(c, np.float32),
    }
    side = -(-_SIZE // convolution.stride)
    graph = helper.make_graph(
        [
            helper.make_node(
                "Conv", ["x", "w", "b"], ["y"], group=convolution.groups, pads=[k // 2] * 4,
                strides=[convolution.stride] * 2,
            ),
            helper.make_node("Relu", ["y"], ["z"]),
        ],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, c, _SIZE, _SIZE])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [n, c, side, side])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x = rng.standard_normal((n, c, _SIZE, _SIZE), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("z")
    return lambda: session.run_with_iobinding(binding)


PEERS: Final = {"ONNX Runtime": in_onnxruntime, "torch": in_torch}


def peer_gflops(name: str, convolution: Convolution, cores: int) -> str:
    """Return the speed of a peer; a dash where it is not installed."""
    try:
        call = PEERS[name](convolution, cores)
    except ImportError:
        return "-"
    seconds = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return f"{convolution.operations / min(seconds) / 1e9:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--layout", nargs="+", default=["NHWC", "NCHW"])
    parser.add_argument("--target-mcpu")
    parser.add_argument("--window", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--stride", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--channels", type=int, nargs="+", default=[4, 8, 16, 24, 32, 48])
    parser.add_argument("--without-peers", action="store_true")
    options = parser.parse_args()
    cpu = f" -mcpu={options.target_mcpu}" if options.target_mcpu else ""
    target = f"llvm -num-cores={options.cores}{cpu}"
    peers = [] if options.without_peers else list(PEERS)
    rows = []
    for layout, window, stride, each in itertools.product(
        options.layout, options.window, options.stride, options.channels
    ):
        grouped = Convolution(layout, window, stride, each, _CHANNELS // each)
        ours = []
        for one in (grouped, grouped.plain()):
            speeds = [gflops(one, ms.default_schedule(one.function(), target), target)]
            if options.trials:
                best = tuned(one.function(), target, options.trials)
                speeds.append(gflops(one, best, target))
            ours.append(speeds)
        cells = [
            *(f"{speed:.0f}" for speeds in ours for speed in speeds),
            f"{max(ours[0]) / max(ours[1]):.2f}",
            *(peer_gflops(name, grouped, options.cores) for name in peers),
        ]
        row = [f"{window}x{window}", stride, f"{grouped.groups} x {each}", layout, *cells]
        rows.append(row)
        print(*row, sep=" | ", flush=True)
    forms = ["default", f"{options.trials} trials"][: 1 + bool(options.trials)]
    figures = [f"{what}, {form}" for what in ("grouped", "plain") for form in forms]
    print(f"\nGFLOPS, {target}\n")
    titles = ["window", "stride", "groups", "layout", *figures, "ratio", *peers]
    print(markdown([titles, *rows]))


if __name__ == "__main__":
    main()
