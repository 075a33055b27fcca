"""Grouped convolutions, compared with plain ones, ONNX Runtime and torch.

    python -m benchmarks.grouped_convolutions [--cores 1] [--trials 0] [--layout NHWC]
        [--target-mcpu znver3] [--window 1 3] [--stride 1 2] [--channels 4 8 16 24 32 48]
        [--peer PYTHON]

Each convolution has about 256 channels of 28x28 elements, in groups of so many, weights that are
packed ahead, a bias and a rectifier. The plain one has as many channels as a group and as many
pictures as there are groups: it does the same number of operations for each element. Figures are
GFLOPS: by the default schedule, after a search if `--trials` says how many, of the plain one, and
of the peers (`onnxruntime`, `torch`) of an interpreter, which compute in their own layout.
`ratio` is the best of ours over the plain one.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import search as ms
from benchmarks.peer_process import PeerProcess, start_peers
from benchmarks.peers.serve import inputs
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

    def shapes(self, layout: str) -> list[list[int]]:
        """Return the shapes of the data, the weights and the bias in a layout."""
        n, c, k, each = self.pictures, self.channels, self.window, self.per_group
        if layout == "NCHW":
            return [[n, c, _SIZE, _SIZE], [c, each, k, k], [c]]
        return [[n, _SIZE, _SIZE, c], [k, k, each, c], [c]]

    def plain(self) -> Convolution:
        """Return the one without groups that does as much for each element."""
        return replace(self, groups=1, pictures=self.groups * self.pictures)

    def function(self) -> PrimFunc:
        """Return the program."""
        shapes = zip("xwb", self.shapes(self.layout), strict=True)
        x, w, b = (te.placeholder(shape, name=name) for name, shape in shapes)
        kernel = "OIHW" if self.layout == "NCHW" else "HWIO"
        y = conv2d(x, w, self.stride, self.window // 2, 1, self.groups, self.layout, kernel)
        axis = self.layout.index("C")
        z = te.compute(y.shape, lambda *i: te.max(y[i] + b[i[axis]], 0.0), name="relu")
        return te.create_prim_func([x, w, b, z]).with_attr("layout_free_buffers", [1])


def gflops(convolution: Convolution, sch: Schedule, target: str) -> float:
    """Return the speed of a scheduled convolution, whose weights are packed ahead."""
    mod = without_layout_rewrite(sch.mod)
    seconds = kernel("main", mod, target, _LEAST_MS, repeat=_ROUNDS).run()
    return convolution.operations / seconds / 1e9


def in_torch(convolution: Convolution) -> dict[str, Any]:
    """Return the request for torch's operator."""
    c, k = convolution.channels, convolution.window
    parameters = {"stride": convolution.stride, "padding": k // 2, "groups": convolution.groups}
    shapes = convolution.shapes("NCHW")
    if convolution.layout == "NCHW":
        return {"operator": "NCHW", "parameters": parameters, "shapes": [*shapes, []]}
    vectors = [[c]] * 3  # bias, offset and scale of a batch norm that is folded
    shapes = [*convolution.shapes("NHWC")[:2], *vectors, []]
    return {"operator": "CBR", "parameters": parameters, "shapes": shapes}


def in_onnxruntime(convolution: Convolution, folder: Path) -> dict[str, Any]:
    """Return the request for a session of ONNX Runtime, which keeps NCHW; takes onnx."""
    from onnx import TensorProto, helper, numpy_helper, save  # noqa: PLC0415 - optional

    x, *weights = inputs(convolution.shapes("NCHW"))
    attributes = {"group": convolution.groups, "strides": [convolution.stride] * 2}
    graph = helper.make_graph(
        [
            helper.make_node(
                "Conv", ["x", "w", "b"], ["y"], pads=[convolution.window // 2] * 4, **attributes
            ),
            helper.make_node("Relu", ["y"], ["z"]),
        ],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in zip("wb", weights, strict=True)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=x)
    return {"model": str(folder / "model.onnx"), "inputs": str(folder / "inputs.npz")}


def peer_gflops(peer: PeerProcess, convolution: Convolution, cores: int, folder: Path) -> str:
    """Return the speed of a peer."""
    is_torch = peer.name.startswith("torch")
    request = in_torch(convolution) if is_torch else in_onnxruntime(convolution, folder)
    peer.request("prepare", threads=cores, **request)
    run = {"form": "main", "least": _LEAST_MS / 1e3}
    seconds = min(peer.request("run", **run)["seconds"] for _ in range(_ROUNDS))
    return f"{convolution.operations / seconds / 1e9:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--layout", nargs="+", default=["NHWC", "NCHW"])
    parser.add_argument("--target-mcpu")
    parser.add_argument("--window", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--stride", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--channels", type=int, nargs="+", default=[4, 8, 16, 24, 32, 48])
    parser.add_argument("--peer", type=Path, action="append", default=[], metavar="PYTHON")
    options = parser.parse_args()
    cpu = f" -mcpu={options.target_mcpu}" if options.target_mcpu else ""
    target = f"llvm -num-cores={options.cores}{cpu}"
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        peers = start_peers(["onnx", "torch"], options.peer, folder, stack, 600)
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
                *(peer_gflops(peer, grouped, options.cores, folder) for peer in peers),
            ]
            row = [f"{window}x{window}", stride, f"{grouped.groups} x {each}", layout, *cells]
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    forms = ["default", f"{options.trials} trials"][: 1 + bool(options.trials)]
    figures = [f"{what}, {form}" for what in ("grouped", "plain") for form in forms]
    print(f"\nGFLOPS, {target}\n")
    titles = ["window", "stride", "groups", "layout", *figures, "ratio"]
    titles += [peer.name for peer in peers]
    print(markdown([titles, *rows]))


if __name__ == "__main__":
    main()
