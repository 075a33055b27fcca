"""Nodes that differ in some fields, if they do."""

from __future__ import annotations

from typing import Any, TypeVar

from tensorir.nodes.node import Node

N = TypeVar("N", bound=Node)


def changed(node: N, **fields: Any) -> N:
    """Return a node that differs in some fields, itself if it differs in none of them."""
    same = all(getattr(node, name) is value for name, value in fields.items())
    return node if same else node.with_(**fields)
