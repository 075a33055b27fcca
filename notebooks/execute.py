"""Execute the notebooks: in place, or (with --check) in memory with few trials.

A notebook's cell with the tag `parameters` sets how many trials it makes; `--check` puts a cell
with small numbers after it. It fails where the stored outputs of a cell have another form than
those of the run: other kinds of output, or headings of tables that nothing prints any more; and
where a picture has no alternative text. That stands in the metadata of its cell, where MyST-NB
reads it: `{"mystnb": {"image": {"alt": "..."}}}`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
_PICTURE = "image/png"
FEW = "trials = 8\nattempts = 2"


def execute(path: Path, few_trials: bool) -> nbformat.NotebookNode:
    """Return a notebook with its outputs; nbclient's CellExecutionError names the failing cell."""
    notebook = nbformat.read(path, as_version=4)
    if few_trials:
        for k, cell in enumerate(notebook.cells):
            if "parameters" in cell.metadata.get("tags", ()):
                notebook.cells.insert(k + 1, nbformat.v4.new_code_cell(FEW))
                break
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources)
        folders = os.pathsep.join([str(HERE.parent), str(HERE)])
        client.execute(env={**os.environ, "PYTHONPATH": folders})
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
            for output in cell.outputs:
                # A widget needs its kernel; without it the page that is beside it is shown.
                output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
                if _PICTURE in output.get("data", {}):
                    output.metadata[_PICTURE] = {"alt": _alternative(cell)}
    return notebook


def _alternative(cell: nbformat.NotebookNode) -> str:
    """Return the alternative text of the pictures of a cell, "" without one."""
    return str(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", ""))


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Return outputs with consecutive texts of a stream in one."""
    result: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and result and result[-1].get("name") == output.name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def differences(stored: nbformat.NotebookNode, run: nbformat.NotebookNode) -> list[str]:
    """Return in which cells stored outputs have another form than those of a run."""
    sources = {cell.source: cell for cell in run.cells if cell.cell_type == "code"}
    found = []
    for number, cell in enumerate(stored.cells):
        if cell.cell_type != "code" or cell.source not in sources:
            continue
        made = sources[cell.source].outputs
        if any(_PICTURE in one.get("data", {}) for one in made) and not _alternative(cell):
            found.append(f"cell {number} has a picture without alternative text")
        if _kinds(cell.outputs) != _kinds(made):
            found.append(f"cell {number} has {_kinds(cell.outputs)}, a run gives {_kinds(made)}")
        for heading in _headings(cell.outputs) - _headings(made):
            found.append(f"cell {number} has a table with {heading}, a run does not")
    return found


def _kinds(outputs: list[nbformat.NotebookNode]) -> list[str]:
    """Return the kinds of outputs; what is logged depends on the number of trials."""
    return sorted({one.get("name", one.output_type) for one in outputs} - {"stderr"})


def _headings(outputs: list[nbformat.NotebookNode]) -> set[tuple[str, ...]]:
    """Return the headings of tables in outputs of text, each as a tuple of its columns."""
    texts = (one.get("text") or one.get("data", {}).get("text/plain", "") for one in outputs)
    lines = (line for text in texts for line in "".join(text).splitlines())
    cells = (tuple(re.split(r"\s{2,}| \| ", line.strip())) for line in lines)
    return {one for one in cells if len(one) > 3 and not any(map(str.isdigit, "".join(one)))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="notebooks; all by default")
    parser.add_argument("--check", action="store_true", help="few trials, nothing is written")
    options = parser.parse_args()
    paths = [Path(name) for name in options.names] or sorted(HERE.glob("*.ipynb"))
    wrong = 0
    for path in paths:
        notebook = execute(path, few_trials=options.check)
        if options.check:
            for text in differences(nbformat.read(path, as_version=4), notebook):
                print(f"{path.name}: {text}; execute it anew: python notebooks/execute.py {path}")
                wrong += 1
        else:
            nbformat.write(notebook, path)
        print(f"{path.name}: {len(notebook.cells)} cells executed")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
