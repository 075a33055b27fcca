"""Whether this machine can run what is built for a target."""

from __future__ import annotations

from typing import Final

from codegen import Target, host

_ASKED_FOR: Final = ("amx",)
"""How the names begin of what code has only where a program asks for it."""


def why_not_here(target: Target) -> str | None:
    """Return in a sentence why code for `target` cannot run on this machine, None if it can.

    A machine that does not say what its CPU has is believed to have everything.
    """
    if target.mtriple is not None:
        named = host.architecture(target.mtriple.split("-")[0])
        if named != host.machine():
            return f"it is for {named}, and this machine is {host.machine()}"
    here = Target("llvm").features
    missing = {name for name in target.features - here if not name.startswith(_ASKED_FOR)}
    if missing and host.cpu_features():
        names = ", ".join(sorted(missing))
        return f"the CPU of this machine has no {names}"
    return None
