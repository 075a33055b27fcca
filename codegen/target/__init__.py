"""The machine to compile for, what its CPU can do, and the machine that this process runs on."""

from codegen.target.target import Target, as_target

__all__ = ["Target", "as_target"]
