"""The operators, as they declare themselves: `python docs/operators.py` writes the tables.

They stand in `docs/operators.md`, a table for each module that declares some. `--check` says
whether they are up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Final

from tensorir.relax.declaration import (
    CompositeOperator,
    DeclaredOperator,
    FormulaOperator,
    LibraryOperator,
)
from tensorir.relax.operator import Operator

PAGE: Final = Path(__file__).with_suffix(".md")
_TABLES: Final = re.compile(r"(<!-- operators: .*? -->\n).*?(<!-- end of operators -->)", re.DOTALL)
_KINDS: Final = {
    FormulaOperator: "Formulas",
    CompositeOperator: "Expressions of other operators",
    LibraryOperator: "Computed by NumPy",
}


def declared() -> list[DeclaredOperator]:
    """Return the operators of this package that are declared, by name."""
    found = [Operator.get(name) for name in sorted(Operator.names())]
    return [
        op
        for op in found
        if isinstance(op, DeclaredOperator) and op.function.__module__.startswith("tensorir.")
    ]


def tables() -> str:
    """Return a section for each kind of operators, with a table for each module."""
    operators = declared()
    sections = []
    for kind, title in _KINDS.items():
        sections.append(f"## {title}\n")
        own = [op for op in operators if isinstance(op, kind)]
        for module in sorted({op.function.__module__ for op in own}):
            rows = [_row(op) for op in own if op.function.__module__ == module]
            text = inspect.getdoc(sys.modules[module]) or ""
            sections.append(f"{_first_sentence(text)} (`{module}`):\n")
            sections.append("\n".join(["| operator | gives |", "| --- | --- |", *rows, ""]))
    return "\n".join(sections)


def _row(op: DeclaredOperator) -> str:
    gives = _first_sentence(inspect.getdoc(op.function) or "").removeprefix("Return ")
    return f"| `{op.signature}` | {gives} |"


def _first_sentence(text: str) -> str:
    """Return the first line of a docstring, without the period."""
    return text.split("\n\n", 1)[0].split("\n", 1)[0].rstrip(".:")


def with_tables(text: str) -> str:
    """Return the page with the tables as they are now."""
    return _TABLES.sub(lambda found: f"{found[1]}\n{tables()}\n{found[2]}", text)


def main(check: bool) -> int:
    """Write the tables, or check them."""
    text = PAGE.read_text()
    now = with_tables(text)
    if now == text:
        return 0
    if check:
        print(f"{PAGE.name}: the tables are old; python docs/operators.py writes them")
        return 1
    PAGE.write_text(now)
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
