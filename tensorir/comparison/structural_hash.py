"""A hash of programs that is the same in every process and on every machine.

The program is written as a canonical sequence of bytes and hashed with BLAKE2b. Variables are
numbered in the order of their first occurrence.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

from tensorir.comparison.equal import plain_text
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import FloatImm, GlobalVar, IntImm, PointerType, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.recursion import any_depth


@any_depth
def structural_hash(
    program: Any, ignore_ndarray: bool = False, ignore_integers: bool = False
) -> int:
    """Return a 64-bit hash that is equal for structurally equal programs.

    Free variables are hashed by their order of occurrence, not by identity. Constant arrays are
    hashed by dtype, shape and bits; `ignore_ndarray` ignores the bits. `ignore_integers` ignores
    the values of integers, but not their types.
    """
    writer = (_WithoutIntegers if ignore_integers else _Writer)(ignore_ndarray)
    writer.write(program)
    digest = hashlib.blake2b(
        "\n".join(writer.tokens).encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    return int(struct.unpack("<Q", digest)[0])


class _Writer:
    def __init__(self, ignore_ndarray: bool) -> None:
        self.tokens: list[str] = []
        self._ignore_ndarray = ignore_ndarray
        self._numbers: dict[Node, int] = {}

    def write(self, value: Any) -> None:
        """Append the tokens of a value."""
        out = self.tokens
        if isinstance(value, Node):
            self._node(value)
        elif isinstance(value, (tuple, list)):
            out.append(f"[{len(value)}")
            for item in value:
                self.write(item)
        elif isinstance(value, dict):
            out.append(f"{{{len(value)}")
            for key in sorted(value):
                out.append(repr(key))
                self.write(value[key])
        elif isinstance(value, np.ndarray):
            bits = "" if self._ignore_ndarray else hashlib.blake2b(value.tobytes()).hexdigest()
            out.append(f"{value.dtype}{value.shape}{bits}")
        elif isinstance(value, Op):
            out.append(value.name)
        else:
            out.append(plain_text(value))

    def _node(self, node: Node) -> None:
        out = self.tokens
        if isinstance(node, Var):
            self._var(node)
        elif isinstance(node, FloatImm):
            out.append(f"f{node.dtype}:{plain_text(node.value)}")
        elif isinstance(node, GlobalVar):
            out.append(f"@{node.name}")
        elif isinstance(node, PrimFunc):
            self._function(node)
        elif isinstance(node, IRModule):
            out.append("module")
            self.write(node.functions)
            self.write(node.attrs)
        elif isinstance(node, PointerType):
            out.append(f"pointer {node.storage_scope or 'global'}")
            self.write(node.element_type)
        elif not node.is_variable or self._is_new(node):
            out.append(type(node).__name__)
            for field, _ in node.counted:
                self.write(getattr(node, field))

    def _is_new(self, var: Node) -> bool:
        """Number a new variable, or write the number of a known one; return True for a new one."""
        number = self._numbers.get(var)
        if number is None:
            self._numbers[var] = len(self._numbers)
            return True
        self.tokens.append(f"#{number}")
        return False

    def _var(self, var: Var) -> None:
        if not self._is_new(var):
            return
        self.tokens.append(f"{type(var).__name__}:{var.dtype}")
        if var.type_annotation is not None:
            self.write(var.type_annotation)

    def _function(self, func: PrimFunc) -> None:
        self.tokens.append("function")
        self.write(func.params)
        for param in func.params:
            self.write(func.buffer_map.get(param))
        self.write(func.ret_type)
        self.write(func.body)
        self.write(func.attrs)


class _WithoutIntegers(_Writer):
    """Writes only the types of integers."""

    def _node(self, node: Node) -> None:
        if isinstance(node, IntImm):
            self.tokens.append(f"i{node.dtype}")
        else:
            super()._node(node)
