"""Transformers of any length, compared with builds of them for one length each.

    python -m benchmarks.any_length                 untuned
    python -m benchmarks.any_length --trials 16     and with 16 trials for each kernel

The networks are those of `benchmarks.torch_models`, with two layers, at a batch of 1. One build of
each has a symbolic length; its kernels have schedules of a few lengths (`--sizes`). The others have
constant shapes. `speed` is the time of a call of a constant build over that of the symbolic one.
Both sides run on one core, in turns, and the least CPU time of all turns counts. Records are kept
in the working directory, and those of the symbolic build serve constant ones, too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.export import Dim, export

import codegen
import search
from benchmarks.side_by_side import Side, in_turns, markdown
from benchmarks.torch_models import Bert, Gpt2, Made, bert_inputs, seeded, text
from search.database import Database
from tensorir import frontend
from tensorir.function import IRModule
from tensorir.relax.function import graph_functions
from tensorir.rewriting.visit import collect_vars

_LONGEST: Final = 512
_LEAST_SECONDS: Final = 0.03
_TURNS: Final = 10
_TARGET: Final = "llvm -num-cores=1"

NETWORKS: Final[Mapping[str, Callable[[int], Made]]] = {
    "GPT": lambda n: (seeded(lambda: Gpt2(2, 512, 8, 1000, _LONGEST)), (text(1000, n),)),
    "MiniLM": lambda n: (seeded(lambda: Bert(2, 384, 12, 1000, _LONGEST)), bert_inputs(1000, n)),
}
"""A decoder that is 512 wide and an encoder that is 384 wide, with a text of a length."""


def imported(network: torch.nn.Module, inputs: Sequence[Tensor], is_open: bool) -> IRModule:
    """Return a network, whose length may be symbolic."""
    length = Dim("length", max=_LONGEST)
    dynamic = tuple({1: length} for _ in inputs) if is_open else None
    return frontend.from_exported_program(export(network, tuple(inputs), dynamic_shapes=dynamic))


def tuned(mod: IRModule, options: Any, folder: Path) -> Database:
    """Return the database of a search for the kernels of a network."""
    arguments = graph_functions(mod)["main"].arguments
    names = {var.name for param in arguments for var in collect_vars(param.struct_info)}
    sizes = dict.fromkeys(names, options.sizes) if options.sizes else None
    trials = options.trials * len(search.extract_tasks(mod, _TARGET, sizes=sizes))
    limits = {"max_trials_global": trials, "max_trials_per_task": options.trials}
    return search.tune_model(mod, _TARGET, folder, sizes=sizes, check=False, seed=1, **limits)


def side(name: str, mod: IRModule, database: Database | None, x: Any) -> Side:
    """Return a network that is called with the same arrays again and again."""
    executable = codegen.vm_build(mod, _TARGET, database=database)
    call = codegen.VirtualMachine(executable, codegen.cpu())["main"]

    def seconds() -> float:
        start, count = time.process_time(), 0
        while (spent := time.process_time() - start) < _LEAST_SECONDS:
            call(*x)
            count += 1
        return spent / count

    return Side(name, seconds)


def rows(name: str, options: Any, folder: Path) -> Iterator[list[object]]:
    """Yield a row for each length: milliseconds of both sides and their ratio, by form."""
    make = NETWORKS[name]
    symbolic = imported(*make(16), is_open=True)
    forms = [False, True] if options.trials else [False]
    known = {is_tuned: tuned(symbolic, options, folder) if is_tuned else None for is_tuned in forms}
    for length in options.lengths:
        network, inputs = make(length)
        constant = imported(network, inputs, is_open=False)
        x = [codegen.array(value.numpy()) for value in inputs]
        row: list[object] = [name, length]
        for is_tuned in forms:
            database = tuned(constant, options, folder) if is_tuned else None
            sides = [side("constant", constant, database, x)]
            sides.append(side("symbolic", symbolic, known[is_tuned], x))
            in_turns(sides, _TURNS)
            row += [f"{one.seconds * 1e3:.3g}" for one in sides]
            row.append(f"{sides[0].seconds / sides[1].seconds:.2f}")
        print(*row, flush=True)
        yield row


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 7, 16, 64, 128, 200, 384])
    parser.add_argument("--sizes", type=int, nargs="+", help="the lengths with schedules")
    parser.add_argument("--trials", type=int, default=0, help="for each kernel; 0 tunes nothing")
    parser.add_argument("--work-dir", type=Path, help="where records go; kept if given")
    options = parser.parse_args()
    titles = ["network", "length", "constant, ms", "symbolic, ms", "speed"]
    titles += ["tuned constant, ms", "tuned symbolic, ms", "speed"] if options.trials else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.work_dir or Path(scratch)
        table = [row for name in options.networks for row in rows(name, options, folder / name)]
    print(f"\n{markdown([titles, *table])}")


if __name__ == "__main__":
    main()
