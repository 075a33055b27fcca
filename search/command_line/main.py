"""The command `tensorir` with its arguments, errors and exit codes.

    tensorir run model.onnx --input x=image.npy
    tensorir tune model.onnx --trials 400 --work-dir tuned
    tensorir run model.onnx --input x=image.npy --work-dir tuned

It ends with 0; with 1 for a model, a file or a search that does not work, which a line on standard
error names; with 2 for arguments that it does not take; with 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from search.command_line.run import add_run
from search.command_line.tune import add_tune
from tensorir.errors import TensorIRError

FAILED: Final = 1
INTERRUPTED: Final = 130

_EXAMPLES: Final = """\
examples:
  tensorir run model.onnx --input x=image.npy --profile
  tensorir tune model.onnx --work-dir tuned --seconds 600
  tensorir run model.onnx --input x=image.npy --work-dir tuned

It ends with 0; with 1 for a model, a file or a search that does not work; with 2
for arguments that it does not take; with 130 after Ctrl-C. `tensorir COMMAND
--help` has the options of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, without any those of the process; return the exit code.

    Standard output has the result alone; what is being done is said on standard error.
    """
    options = _parser().parse_args(arguments)
    try:
        with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
            report, text = options.command(options)
    except KeyboardInterrupt:
        print("tensorir: interrupted", file=sys.stderr)  # noqa: T201  it is what the command says
        return INTERRUPTED
    except (TensorIRError, OSError, ImportError) as error:
        print(f"tensorir: error: {error}", file=sys.stderr)  # noqa: T201
        return FAILED
    print(_as_json(report) if options.json else text)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tensorir",
        description="Runs trained models, and tunes them to run faster on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("model", help="a model file: .onnx, or .pt2 of torch.export.save")
    shared.add_argument(
        "--target",
        help='what to compile for, as in "llvm -num-cores=2" (default: this machine, all cores)',
    )
    shared.add_argument(
        "--work-dir",
        metavar="DIR",
        help="the directory of a search: tune writes it, and run takes schedules of it",
    )
    shared.add_argument("--json", action="store_true", help="print the result as JSON")
    add_run(commands, shared)
    add_tune(commands, shared)
    return parser


def _as_json(report: dict[str, Any]) -> str:
    return json.dumps(report, indent=2)
