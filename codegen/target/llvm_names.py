"""The names of CPUs and features that LLVM supports.

LLVM ends the process if it compiles for an unknown CPU, or for a CPU without required features, and
it prints its lists to standard error, once per process. So a child process checks names that
`codegen.target.presets` does not have.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from codegen.errors import TargetError
from codegen.target import host
from codegen.target.presets import ARCHITECTURES, BASELINE_FEATURES, KNOWN_FEATURES

_NO_SUCH_TARGET: Final = 3
_CHILD: Final = """
import sys
folder, triple, cpu, features = sys.argv[1:]
sys.path.insert(0, folder)
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
triple = triple or llvm.get_process_triple()
try:
    target = llvm.Target.from_triple(triple)
except RuntimeError:
    sys.exit(3)
target.create_target_machine(features="+help")
machine = target.create_target_machine(cpu=cpu, features=features)
module = llvm.parse_assembly(
    "define double @f(double %x) { %y = fadd double %x, %x  ret double %y }"
)
machine.emit_object(module)
"""
_ERROR: Final = re.compile(r"^(?:LLVM ERROR: |error: (?:<unknown>:0:0: )?)(.+)$", re.MULTILINE)
_LINE: Final = re.compile(r"^  (\S+) +- ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of CPUs and features that LLVM has for an architecture."""

    cpus: frozenset[str]
    features: frozenset[str]


def check_names(
    triple: str | None, architecture: str, cpu: str | None, changes: tuple[str, ...]
) -> None:
    """Raise TargetError for a CPU, a feature or an architecture that LLVM cannot compile for.

    `changes` are features that are switched on (`+avx2`) or off (`-fma`); the default `triple` is
    this machine.
    """
    if cpu is not None and ARCHITECTURES.get(cpu, architecture) != architecture:
        other = ARCHITECTURES[cpu]
        raise TargetError(
            f"{cpu} is a CPU of {other}, but the target is of {architecture}; "
            f"add its system, for example -mtriple={other}-linux-gnu"
        )
    if architecture in BASELINE_FEATURES and (cpu is None or cpu in ARCHITECTURES):
        known = KNOWN_FEATURES[architecture]
        baseline = BASELINE_FEATURES[architecture]
        if all(c[1:] in known and (c[0] == "+" or c[1:] not in baseline) for c in changes):
            return
    _check_with_llvm(triple or "", architecture, cpu, changes)


@cache
def _check_with_llvm(
    triple: str, architecture: str, cpu: str | None, changes: tuple[str, ...]
) -> None:
    names, problem = _run(triple, cpu or "", ",".join(changes))
    if cpu is not None and cpu not in names.cpus:
        native = "; -mcpu=native is the CPU of this machine" * (architecture == host.machine())
        raise TargetError(
            f"LLVM has no CPU {cpu!r} for {architecture}{_similar_names(cpu, names.cpus) or native}"
        )
    for change in changes:
        if change[1:] not in names.features:
            raise TargetError(
                f"LLVM has no feature {change[1:]!r} for {architecture}"
                f"{_similar_names(change[1:], names.features)}"
            )
    if problem is not None:
        described = " ".join([*([cpu] if cpu else []), *changes])
        raise TargetError(f"LLVM cannot compile for {described} on {architecture}: {problem}")


@cache
def names_of(triple: str) -> Names:
    """Return the names of the architecture of a triple, of this machine's if it is empty.

    Raises TargetError for a triple without a code generator in LLVM.
    """
    return _run(triple, "", "")[0]


def _run(triple: str, cpu: str, features: str) -> tuple[Names, str | None]:
    """Return LLVM's names, and its error for a CPU with features, None if it can compile for it."""
    spec = importlib.util.find_spec("llvmlite")
    assert spec is not None
    assert spec.origin is not None
    folder = str(Path(spec.origin).parent.parent)
    finished = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _CHILD, folder, triple, cpu, features],
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode == _NO_SUCH_TARGET:
        raise TargetError(
            f"LLVM here has no code generator for the triple {triple!r}; examples of triples are "
            "x86_64-linux-gnu and aarch64-linux-gnu"
        )
    names, _, others = finished.stderr.partition("Available features")
    found = Names(frozenset(_LINE.findall(names)), frozenset(_LINE.findall(others)))
    if finished.returncode == 0:
        return found, None
    said = _ERROR.search(finished.stderr)
    return found, said[1] if said else f"it ended with status {finished.returncode}"


def _similar_names(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name.lower().replace("_", "-"), sorted(names), 3, 0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""
