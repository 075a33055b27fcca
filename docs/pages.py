"""Run the programs of these pages: `python docs/pages.py` checks what they print.

The `python` blocks of a page run one after another, as in a notebook. A `text` block right behind
one is what it prints; a line `...` in it stands for any lines, `...` inside a line for any text.
`--update` writes what they print now. `--trials N` lets searches measure N candidates at most.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import linecache
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PAGES = sorted(path.relative_to(DOCS).as_posix()[:-3] for path in DOCS.rglob("*.md"))
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)


def run(text: str, name: str) -> str:
    """Return a page with what its programs print now; what its ellipses allow stays."""
    namespace: dict[str, Any] = {"__name__": name}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return _BLOCK.sub(lambda found: _with_output(found, text, name, namespace), text)


def _with_output(found: re.Match[str], text: str, name: str, namespace: dict[str, Any]) -> str:
    code, expected = found["code"], found["output"]
    place = f"<{name}.md, line {text.count(chr(10), 0, found.start('code'))}>"
    linecache.cache[place] = (len(code), None, code.splitlines(True), place)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, place, "exec"), namespace)
    printed = "\n".join(row.rstrip() for row in out.getvalue().splitlines())
    block = f"```python\n{code}```\n"
    if not printed and expected is None:
        return block
    shown = expected if expected and agrees(expected.rstrip("\n"), printed) else printed + "\n"
    return f"{block}\n```text\n{shown}```\n"


def agrees(expected: str, printed: str) -> bool:
    """Say whether a text is the expected one, whose ellipses stand for anything."""
    rows = [
        "(?:.*\n)*?" if row.strip() == "..." else ".*".join(map(re.escape, row.split("..."))) + "\n"
        for row in expected.splitlines()
    ]
    return re.fullmatch("".join(rows), printed + "\n") is not None


def _limited(trials: int, found: re.Match[str]) -> str:
    return f"{found[1]}{min(int(found[2]), trials)}"


def main(arguments: list[str]) -> int:
    """Check the pages that are named, or all; with `--update`, write what they print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=PAGES)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--trials", type=int)
    options = parser.parse_args(arguments)
    update, trials = options.update, options.trials
    wrong = 0
    for name in options.names:
        page = DOCS / f"{name}.md"
        text = page.read_text()
        if trials is not None:
            text = re.sub(r"(max_trials_global=)(\d+)", partial(_limited, trials), text)
        now = run(text, name)
        same = now == text
        if not same and update:
            page.write_text(now)
        elif not same:
            rows = text.splitlines(), now.splitlines()
            print("\n".join(difflib.unified_diff(*rows, "page", "now", "", "", 2, "")))
        wrong += not same
        print(f"{name}: {'as printed' if same else 'written' if update else 'differs'}")
    return 0 if update else min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
