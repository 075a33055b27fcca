"""The contents of a log, on the command line.

    python -m search.compat.autotvm.record --mode read --i matmul.log --begin 0 --end 5
    python -m search.compat.autotvm.record --mode pick --i matmul.log --o best.log
    python -m search.compat.autotvm.record --mode split --i all.log

`read` prints records, with `--ir` their programs and with `--code` the LLVM IR of these. Both need
the templates: `--template MODULE` imports a module that registers some. `pick` writes the best
record of each task to a log, `<i>.best.log` by default; `split` writes the records of each task to
a separate log.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import codegen
from search.compat.autotvm.record import load_from_file, pick_best, split_workload
from tensorir.errors import TensorIRError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error ends it with a message."""
    parser = argparse.ArgumentParser(
        prog="python -m search.compat.autotvm.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mode", choices=("read", "pick", "split"), default="read")
    parser.add_argument("--i", required=True, metavar="FILE", help="the log to read")
    parser.add_argument("--o", metavar="FILE", help="the log that `pick` writes")
    parser.add_argument("--begin", type=int, default=0, help="the first record to read, from 0")
    parser.add_argument("--end", type=int, default=5, help="the first record not to read")
    parser.add_argument("--ir", action="store_true", help="print programs")
    parser.add_argument("--code", action="store_true", help="print the LLVM IR of programs")
    parser.add_argument(
        "--template", action="append", default=[], metavar="MODULE", help="import before reading"
    )
    options = parser.parse_args(arguments)
    if not 0 <= options.begin <= options.end:
        parser.error(f"--begin {options.begin} --end {options.end}: expected 0 <= begin <= end")
    try:
        for module in options.template:
            importlib.import_module(module)
        sys.stdout.writelines(f"{text}\n" for text in _output(options))
    except (OSError, ImportError, TensorIRError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def _output(options: argparse.Namespace) -> Iterator[str]:
    if options.mode == "pick":
        best = options.o or f"{options.i}.best.log"
        yield f"{pick_best(options.i, best)} record(s) in {best}"
    elif options.mode == "split":
        yield from split_workload(options.i)
    else:
        for inp, result in islice(load_from_file(options.i), options.begin, options.end):
            yield f"{inp.task}\n{inp.target}\n{inp.config}\n{result}"
            if options.ir:
                yield inp.task.instantiate(inp.config).mod.script()
            if options.code:
                mod = inp.task.instantiate(inp.config).mod
                yield codegen.build(mod, inp.target).get_source()
            yield ""


if __name__ == "__main__":
    main()
