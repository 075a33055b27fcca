"""Devices, of which there is one kind: the CPU."""

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
    """Refuse anything but a device of this machine; None stands for the CPU.

    Raises IRTypeError for what is no device at all, IRValueError for one that is not there.
    """
    if device is None:
        return
    if not isinstance(device, Device):
        raise IRTypeError(
            f"a device is codegen.cpu(), got {device!r} of type {type(device).__name__}"
        )
    if not device.exist:
        raise IRValueError(f"there is no device {device}; there is codegen.cpu()")


def cpu(index: int = 0) -> Device:
    """Return the CPU as a device, for the signatures that take one."""
    return Device("cpu", index)
