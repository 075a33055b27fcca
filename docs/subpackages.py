"""The lists of subpackages in the README of each package.

`python docs/subpackages.py` writes them. A subpackage is listed with the first sentence of
its docstring, and so are the files next to it. `--check` fails if a list is out of date.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("tensorir", "schedule", "codegen", "search")
_LIST = re.compile(r"(<!-- subpackages: .*? -->\n).*?(<!-- end of subpackages -->)", re.DOTALL)


def first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring, without the period."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n\n", 1)[0].replace("\n", " ").rstrip(".")


def subpackages(package: str) -> str:
    """Return the folders of a package and the files beside them, a table."""
    folder = ROOT / package
    inside = sorted(path.parent for path in folder.glob("*/__init__.py"))
    rows = [f"| `{p.name}/` | {first_sentence(p / '__init__.py')} |" for p in inside]
    files = sorted(path for path in folder.glob("*.py") if path.stem != "__init__")
    rows += [f"| `{path.name}` | {first_sentence(path)} |" for path in files]
    return "\n".join(["| in `" + package + "/` | what is inside |", "| --- | --- |", *rows, ""])


def with_rooms(package: str, text: str) -> str:
    """Return a README with the list as it is now."""
    return _LIST.sub(lambda found: found[1] + subpackages(package) + found[2], text)


def main(check: bool) -> int:
    """Write the lists, or check them."""
    old = 0
    for package in PACKAGES:
        path = ROOT / package / "README.md"
        text = path.read_text()
        now = with_rooms(package, text)
        if now != text and check:
            old += 1
            print(
                f"{package}/README.md: the list of subpackages is out of date; "
                "python docs/subpackages.py writes it"
            )
        elif now != text:
            path.write_text(now)
    return min(old, 1)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
