"""Install the distribution into an empty environment and use it there, away from the checkout.

    python tests/installed.py dist/tensorir-*.whl

It needs the standard library only. What is used: the tour of the README, the command line, a small
model of ONNX (with the extra `onnx`), and what a type checker and a lawyer look for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from readme_programs import TOUR

PACKAGES = ("tensorir", "schedule", "codegen", "search")
MOST_MEGABYTES = 420
"""What the base installation may take; docs/platforms.md says what takes it."""

_FACTS = """
import importlib, importlib.metadata, json
modules = {name: importlib.import_module(name) for name in %r}
found = importlib.metadata.distribution("tensorir")
print(json.dumps({
    "places": {name: module.__file__ for name, module in modules.items()},
    "versions": [module.__version__ for module in modules.values()] + [found.version],
    "licence": found.metadata["License-Expression"],
    "files": [str(path) for path in found.files],
    "installed": sorted(d.metadata["Name"].lower() for d in importlib.metadata.distributions()),
}))
"""
_MODEL = """
import onnx
from onnx import TensorProto, helper
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(model, "model.onnx")
"""


class Environment:
    """An empty virtual environment, and a folder to work in that is not the checkout."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "environment"
        self.work = folder / "work"
        self.work.mkdir()
        venv.create(self.home, with_pip=True)
        self.bin = self.home / ("Scripts" if os.name == "nt" else "bin")

    def run(self, command: str, *arguments: str) -> str:
        """Run a program of the environment and return what it prints; SystemExit if it fails."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run(
            [str(self.bin / command), *arguments],
            cwd=self.work,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"{command} {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def megabytes(self) -> int:
        """Return what the packages take, the installer left out, in units of 10**6 bytes."""
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(self.run("python", "-c", where).strip())
        tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
        files = [
            path
            for path in packages.rglob("*")
            if not path.relative_to(packages).parts[0].startswith(tools)
            and "__pycache__" not in path.parts
        ]
        return sum(path.stat().st_size for path in files if path.is_file()) // 10**6


def main(wheel: Path) -> None:
    """Install a wheel and use it; end with a sentence if something is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder))
        environment.run("python", "-m", "pip", "install", "--quiet", str(wheel))
        check_installation(environment)
        size = environment.megabytes()
        if size > MOST_MEGABYTES:
            sys.exit(f"the base installation takes {size} MB, more than {MOST_MEGABYTES}")
        print(f"installed: {size} MB")
        (environment.work / "tour.py").write_text(TOUR)
        environment.run("python", "tour.py")
        print("the tour of the README runs")
        if "tensorir" not in environment.run("tensorir", "--help"):
            sys.exit("tensorir --help does not name the command")
        environment.run("python", "-m", "pip", "install", "--quiet", f"{wheel}[onnx]")
        environment.run("python", "-c", _MODEL)
        json.loads(environment.run("tensorir", "run", "model.onnx", "--json"))
        print("the command line runs a model")


def check_installation(environment: Environment) -> None:
    """See that the packages come from the environment, with one version and all their files."""
    facts = json.loads(environment.run("python", "-c", _FACTS % (PACKAGES,)))
    for name, place in facts["places"].items():
        if not Path(place).is_relative_to(environment.home):
            sys.exit(f"{name} comes from {place}, not from the environment")
    if len(set(facts["versions"])) != 1:
        sys.exit(f"versions differ: {facts['versions']}")
    if facts["licence"] != "Apache-2.0 AND MIT" or not any(
        "LICENSE" in file for file in facts["files"]
    ):
        sys.exit("the wheel has no licence")
    for wanted in [f"{name}/py.typed" for name in PACKAGES] + ["schedule/methods.pyi"]:
        if wanted not in facts["files"]:
            sys.exit(f"the wheel has no {wanted}")
    needless = [name for name in facts["installed"] if re.match("nvidia|torch|onnx", name)]
    if needless:
        sys.exit(f"the base installation brings {', '.join(needless)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
