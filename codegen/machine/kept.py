"""Measured figures of a machine, kept in the user's cache directory.

Each file is JSON: the figures and the machine. It is replaced as a whole, so that processes need no
lock; an unreadable file, or a file of another machine, is ignored.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any, Final

from codegen.cache_folder import cache_folder
from codegen.machine.speed import MachineSpeed
from codegen.target import Target, host
from tensorir.replaced_file import replaced_file

logger = logging.getLogger("tensorir.codegen")

_FORMAT: Final = 2
"""To be raised when figures change their meaning, or are measured in another way."""


def machine_key(target: Target) -> dict[str, Any]:
    """Return what the figures of this machine depend on: its CPU model, not the microcode."""
    caches = target.caches
    return {
        "format": _FORMAT,
        "cpu": host.cpu_identity(),
        "caches": [caches.l1, caches.l2, caches.l3],
        "vector_bits": target.vector_bits,
        "vector_registers": target.vector_registers,
        "fma": "fma" in target.features,
        "cores": host.physical_cores(),
    }


def kept_speed(target: Target) -> MachineSpeed | None:
    """Return what was measured of this machine with the vectors of a target, None if nothing."""
    path = _path(target)
    if path is None:
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("machine") != machine_key(target):
            return None
        speed = MachineSpeed.from_dict(data.get("speed"))
    except (OSError, ValueError):
        return None
    return speed if speed.implausible() is None else None


def keep_speed(target: Target, speed: MachineSpeed) -> None:
    """Keep what was measured; where nothing can be written, it is measured again next time."""
    path = _path(target)
    if path is None:
        return
    data = {"machine": machine_key(target), "speed": speed.to_dict()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as file:
            file.write(json.dumps(data, indent=1).encode())
    except OSError as error:
        logger.info("what was measured of this machine is not kept: %s", error)


def _path(target: Target) -> Path | None:
    """Return the file for this machine and the vectors of a target; None without a directory."""
    folder = cache_folder()
    if folder is None:
        return None
    text = json.dumps(machine_key(target), sort_keys=True)
    name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return folder / f"machine-{name}.json"
