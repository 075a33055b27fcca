"""`python -m codegen.machine [TARGET] [--again]`: facts about a target, and its speed here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from codegen.errors import CodegenError, TargetError
from codegen.machine import machine_speed
from codegen.runtime.host_features import why_not_here
from codegen.target import Target


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        "python -m codegen.machine",
        description=(
            "Print the facts about a target, and the speed of this machine with its vectors."
        ),
    )
    parser.add_argument("target", nargs="?", default="host", help="this machine if left out")
    parser.add_argument("--again", action="store_true", help="measure again")
    options = parser.parse_args(arguments)
    try:
        target = Target(options.target)
        lines = [f"{name:16}{text}" for name, text in _known_facts(target)]
        reason = why_not_here(target)
        measured = f"not measured: {reason}"
        if reason is None:
            measured = f"measured\n{machine_speed(target, again=options.again)}"
    except (CodegenError, TargetError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    sys.stdout.write("\n".join([*lines, "", measured, ""]))


def _known_facts(target: Target) -> Iterator[tuple[str, str]]:
    core, caches = target.core, target.caches
    yield "target", str(target)
    yield "CPU model", f"{target.mcpu} ({target.architecture})"
    yield "vectors", f"{target.vector_registers} registers of {target.vector_bits} bits"
    yield "caches", ", ".join(f"{size >> 10} KiB" for size in (caches.l1, caches.l2, caches.l3))
    yield "multiply-adds", f"{target.fma_units:g} a cycle, {target.fma_latency} cycles each"
    yield "loads", f"{core.vector_loads_per_cycle(target.vector_bits):g} vectors a cycle"


if __name__ == "__main__":
    main()
