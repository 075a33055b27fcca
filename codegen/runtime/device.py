"""Devices, of which there is one kind: the CPU."""

from __future__ import annotations

from tensorir.errors import IRTypeError, IRValueError


class Device:
    """The device that a function runs on; there is only the CPU."""

    def __init__(self, kind: str = "cpu", index: int = 0) -> None:
        self.kind = kind
        self.index = index

    @property
    def exist(self) -> bool:
        """True if the device is there."""
        return self.kind == "cpu"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

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
