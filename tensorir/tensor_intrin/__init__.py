"""Tensor intrinsics: small programs that hardware computes in one step.

A `TensorIntrin` pairs a description with an implementation. The description defines the computation
and is matched with programs; the implementation replaces it. Both have the same parameters. The
intrinsics of `tensorir.tensor_intrin.dot_product`, `.matrix_tile` and `.tensor_core` are always
registered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import ClassVar, Final

from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.nodes.stmt import BlockRealize

_BUILT_IN = ("dot_product", "matrix_tile", "tensor_core")
"""Modules of this package that register intrinsics, each of which is made when it is looked up."""
_loading: Final = threading.RLock()


class TensorIntrin:
    """An intrinsic: its computation as a program (`desc`), and its implementation (`impl`)."""

    _registry: ClassVar[dict[str, TensorIntrin | Callable[[], TensorIntrin]]] = {}
    _loaded: ClassVar[bool] = False

    def __init__(self, desc: PrimFunc, impl: PrimFunc) -> None:
        """Pair a description and an implementation.

        Raises IRValueError unless both have the same buffers as parameters, in the same order, and
        a single block as body.
        """
        _check_form("description", desc)
        _check_form("implementation", impl)
        if len(desc.params) != len(impl.params):
            raise IRValueError(
                f"the description has {len(desc.params)} parameters, "
                f"the implementation {len(impl.params)}"
            )
        for a, b in zip(desc.params, impl.params, strict=True):
            first, second = desc.buffer_map[a], impl.buffer_map[b]
            same = (
                first.dtype is second.dtype
                and first.scope() == second.scope()
                and [str(n) for n in first.shape] == [str(n) for n in second.shape]
            )
            if not same:
                raise IRValueError(
                    f"the description's buffer {first.name} and the implementation's "
                    f"{second.name} differ in shape, dtype or storage scope"
                )
        self.desc = desc
        self.impl = impl

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Register an intrinsic under a name.

        Raises IRValueError for a name that is taken, unless `override`, and for programs that do
        not match.
        """
        TensorIntrin._load()
        TensorIntrin._add(name, TensorIntrin(desc, impl), override)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """Return the intrinsic registered under a name.

        For an unknown name, returns None if `allow_missing`, else raises IRValueError.
        """
        TensorIntrin._load()
        with _loading:
            found = TensorIntrin._registry.get(name)
            if found is not None and not isinstance(found, TensorIntrin):
                found = TensorIntrin._registry[name] = found()
        if found is None and not allow_missing:
            raise IRValueError(
                f"unknown tensor intrinsic {name!r}; "
                f"registered are {', '.join(sorted(TensorIntrin._registry))}"
            )
        return found

    @staticmethod
    def names() -> list[str]:
        """Return the names of all intrinsics, sorted."""
        TensorIntrin._load()
        return sorted(TensorIntrin._registry)

    @staticmethod
    def _load() -> None:
        with _loading:  # another thread waits until all intrinsics are registered
            if TensorIntrin._loaded:
                return
            TensorIntrin._loaded = True
            for module in _BUILT_IN:
                table: dict[str, Callable[[], TensorIntrin]] = import_module(
                    f"{__name__}.{module}"
                ).INTRINSICS
                for name, make in table.items():
                    TensorIntrin._add(name, make, override=False)

    @staticmethod
    def _add(name: str, intrin: TensorIntrin | Callable[[], TensorIntrin], override: bool) -> None:
        if name in TensorIntrin._registry and not override:
            raise IRValueError(
                f"a tensor intrinsic {name!r} is registered already; "
                "pass override=True to replace it"
            )
        TensorIntrin._registry[name] = intrin


def _check_form(role: str, func: PrimFunc) -> None:
    if not all(param in func.buffer_map for param in func.params):
        raise IRValueError(f"the {role} of a tensor intrinsic must have only buffer parameters")
    if not isinstance(func.body, BlockRealize):
        raise IRValueError(f"the {role} of a tensor intrinsic must have a root block")
