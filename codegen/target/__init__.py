"""The machine to compile for, the capabilities of its CPU, and the machine of this process."""

from codegen.target.target import Target, as_target

__all__ = ["Target", "as_target"]
