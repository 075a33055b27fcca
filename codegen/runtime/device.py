"""Devices; the only kind is the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from tensorir.errors import IRTypeError, IRValueError


@dataclass(frozen=True, repr=False)
class Device:
    """The device that a function runs on; there is only the CPU."""

    kind: str = "cpu"
    index: int = 0

    @property
    def exist(self) -> bool:
        """True if the device is there."""
        return self.kind == "cpu"

    def __repr__(self) -> str:
        return f"{self.kind}({self.index})"


def check_device(device: object) -> None:
    """Check that `device` is a device of this machine; None means the CPU.

    Raises IRTypeError for other objects, IRValueError for a missing device.
    """
    if device is None:
        return
    if not isinstance(device, Device):
        raise IRTypeError(
            f"a device is codegen.cpu(), got {device!r} of type {type(device).__name__}"
        )
    if not device.exist:
        raise IRValueError(f"unknown device {device}; the only device is codegen.cpu()")


def cpu(index: int = 0) -> Device:
    """Return the CPU as a device, for the signatures that take one."""
    return Device("cpu", index)
