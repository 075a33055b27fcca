"""The best records of a log: `python -m search.compat.auto_scheduler --mode distill -i IN`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from search.compat.auto_scheduler.records import distill_record_file


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        "python -m search.compat.auto_scheduler",
        description="Keep the best record of each workload and target of a log.",
    )
    parser.add_argument("--mode", choices=["distill"], required=True)
    parser.add_argument("-i", "--input", required=True, help="the log")
    parser.add_argument("-o", "--output", help="where to write them; <log>.best.json if left out")
    options = parser.parse_args(arguments)
    output = options.output or f"{options.input}.best.json"
    try:
        count = distill_record_file(options.input, output)
    except OSError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    sys.stdout.write(f"{output} has {count} record(s)\n")


if __name__ == "__main__":
    main()
