"""The networks of `benchmarks.torch_models` as ONNX files, written by torch's exporter.

python -m benchmarks.onnx_models build/models             all of them
python -m benchmarks.onnx_models build/models ResNet-18   one of them
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from benchmarks.torch_models import MODELS

OPSET: Final = 17


def write_onnx(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    path: Path,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    opset: int = OPSET,
) -> None:
    """Write a module as an ONNX file; `dynamic` names dimensions of inputs (`x0`, `x1`, ...)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter says that there is another one
        torch.onnx.export(
            module,
            inputs,
            str(path),
            dynamo=False,
            opset_version=opset,
            input_names=[f"x{k}" for k in range(len(inputs))],
            dynamic_axes=None if dynamic is None else {k: dict(v) for k, v in dynamic.items()},
        )


def onnx_file(name: str, folder: Path) -> Path:
    """Return the file of a model of `MODELS`, which is written if it is not there."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        module, inputs = MODELS[name]()
        unfinished = path.with_suffix(".unfinished")
        write_onnx(module, inputs, unfinished)
        unfinished.replace(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(MODELS), metavar="NAME")
    options = parser.parse_args()
    for name in options.names or MODELS:
        path = onnx_file(name, options.folder)
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
