"""Execute the notebooks: in place, or (with --check) in memory with few trials.

A notebook's cell with the tag `parameters` sets how many trials it makes; `--check` puts a cell
with small numbers after it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
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
        client.execute(env={**os.environ, "PYTHONPATH": str(HERE.parent)})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    return notebook


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Return outputs with consecutive texts of a stream in one."""
    result: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and result and result[-1].get("name") == output.name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="notebooks; all by default")
    parser.add_argument("--check", action="store_true", help="few trials, nothing is written")
    options = parser.parse_args()
    paths = [Path(name) for name in options.names] or sorted(HERE.glob("*.ipynb"))
    for path in paths:
        notebook = execute(path, few_trials=options.check)
        if not options.check:
            nbformat.write(notebook, path)
        print(f"{path.name}: {len(notebook.cells)} cells executed")


if __name__ == "__main__":
    main()
