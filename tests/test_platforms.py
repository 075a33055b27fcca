"""What works on a system that lacks what Linux has, and what is said of the rest.

The systems are made up: a process loses the modules and functions that they do not have.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from search import TuningError
from search.cost_model import XGBModel

ROOT = Path(__file__).parents[1]
MISSING = {
    "darwin": ("", "os.sched_getaffinity os.sched_setaffinity os.posix_fallocate"),
    "win32": (
        "fcntl resource pwd grp termios",
        "os.sched_getaffinity os.sched_setaffinity os.posix_fallocate os.getuid os.pread "
        "signal.SIGPROF signal.setitimer signal.ITIMER_PROF socket.AF_UNIX",
    ),
}
MADE_UP = """
import asyncio, ctypes, multiprocessing.connection, os, signal, socket, subprocess, sys, sysconfig
import tempfile, uuid, llvmlite.binding, numpy, numpy.ctypeslib, typer.main
sysconfig.get_config_vars()  # those of the real system, which has no file of another one's
sys.modules.update(dict.fromkeys({modules!r}.split()))
for name in {names!r}.split():
    module, _, attribute = name.partition(".")
    if hasattr(sys.modules[module], attribute):
        delattr(sys.modules[module], attribute)
sys.platform = {platform!r}
"""
EVERY_MODULE = """
import importlib, pkgutil
for package in ("tensorir", "schedule", "codegen", "search"):
    for module in pkgutil.walk_packages([f"{root}/{{package}}"], f"{{package}}."):
        if not module.name.endswith("__main__") and not any(o in module.name for o in {optional}):
            importlib.import_module(module.name)
"""
OPTIONAL = ("torch_backend", "frontend.torch", "frontend.onnx")
"""Modules that need packages which not everyone has."""
PURE = """
import codegen, search
from schedule import Schedule
from tensorir import workloads
program = workloads.create("GMM", n=32, m=32, k=32)
sch = Schedule(program)
sch.parallel(sch.get_loops("Z")[0])
print(len(search.design_spaces(program, "llvm -mcpu=x86-64-v3 -num-cores=1")) > 0)
library = codegen.build(sch.mod, "llvm -mcpu=x86-64-v3")
print("define" in library.inspect_llvm())
"""
ON_WINDOWS = """
print(codegen.why_not_here("llvm"))
try:
    search.tune_tir(program, "llvm", config=search.TuneConfig(max_trials_global=1), work_dir="out")
except search.TuningError as error:
    print(error)
database = search.database.JSONDatabase("workloads.json", "records.json")
print(len(database))
try:
    database.commit_workload(sch.mod)
except search.TuningError as error:
    print(error)
"""
ON_MACOS = """
import numpy
a, c = numpy.ones((1, 32, 32), "float32"), numpy.zeros((1, 32, 32), "float32")
codegen.build(sch.mod, "llvm")["main"](a, a, c)
print(c.max())
from search.builder.core_split import core_split
print(core_split())
"""


def run(platform: str, program: str, folder: Path) -> list[str]:
    """Return what a program prints on a system that is made up."""
    modules, names = MISSING[platform]
    made_up = MADE_UP.format(modules=modules, names=names, platform=platform)
    done = subprocess.run(
        [sys.executable, "-c", made_up + program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_module_is_imported_on_windows(tmp_path: Path) -> None:
    run("win32", EVERY_MODULE.format(root=ROOT, optional=OPTIONAL), tmp_path)


def test_windows_schedules_and_compiles_and_says_what_it_does_not(tmp_path: Path) -> None:
    (tmp_path / "workloads.json").touch()
    (tmp_path / "records.json").touch()
    said = run("win32", PURE + ON_WINDOWS, tmp_path)
    has_space, is_compiled, running, tuning, records, writing = said
    assert (has_space, is_compiled) == ("True", "True")
    assert running.startswith("compiled code runs on Linux and macOS, and on Windows in its sub")
    assert "cannot be measured on this machine: compiled code runs on Linux" in tuning
    assert records == "0"
    assert "file locks of POSIX" in writing


def test_macos_runs_what_it_compiles(tmp_path: Path) -> None:
    assert run("darwin", PURE + ON_MACOS, tmp_path) == ["True", "True", "32.0", "None"]


def test_without_xgboost_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(TuningError, match=r'pip install xgboost-cpu .* cost_model="random"'):
        XGBModel().warm_up()
