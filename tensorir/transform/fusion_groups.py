"""Selection of the groups of calls in a graph that are fused.

The rule is that of Relay and TVM (Chen et al., "TVM: An Automated End-to-End Optimizing Compiler
for Deep Learning", 2018, section 3; `relax.transform.FuseOps`): a call is fused into its immediate
post-dominator, the first call that is on all paths from its result, if all calls on these paths may
be fused. So a group has one result, and no path between its calls leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensorir.memory.op_pattern import OpPattern

MAX_GROUP_SIZE: Final = 64
"""The maximum number of calls of a group. The time to schedule a function grows faster than the
number of its stages, since inlining one stage rewrites the others.
"""
MAX_COPIES: Final = 128
"""The maximum number of additional copies of calls when a schedule inlines each call into all its
consumers. In a chain of calls that each read the previous one twice, the copies double per call.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A call in a graph: its kind, and the nodes whose results it reads.

    `inputs` has a node once for each load of its result in the called function.
    """

    pattern: OpPattern
    inputs: Sequence[int]
    escapes: bool
    """True if the result is used outside of the graph."""


def fusion_groups(nodes: Sequence[Node], limit: int = MAX_GROUP_SIZE) -> list[int]:
    """Return for each node the number of its group; a node may be alone in its group.

    Nodes are in order, inputs first. A group has at most `limit` nodes, and at most `MAX_COPIES`
    copies of calls after inlining. The run time is about O(n log n).
    """
    return _Grouping(nodes, limit).groups()


@dataclass(slots=True)
class _Dominator:
    """The immediate post-dominator of a node; `parent` is None if the uses do not meet again."""

    parent: int | None
    depth: int
    pattern: OpPattern
    """The highest `OpPattern` of the calls between the node and its post-dominator."""


@dataclass(slots=True)
class _Group:
    parent: _Group | None
    pattern: OpPattern
    has_anchor: bool
    """True if one of the calls is OUT_ELEMWISE_FUSABLE, such as a product of matrices."""
    members: list[int]

    def root(self) -> _Group:
        """Return the representative of the group."""
        node = self
        while node.parent is not None:
            if node.parent.parent is not None:
                node.parent = node.parent.parent
            node = node.parent
        return node


class _Grouping:
    def __init__(self, nodes: Sequence[Node], limit: int) -> None:
        self._nodes = nodes
        self._limit = limit
        self._users: list[list[int]] = [[] for _ in nodes]
        for k, node in enumerate(nodes):
            for source in dict.fromkeys(node.inputs):
                self._users[source].append(k)
        self._groups = [
            _Group(None, n.pattern, n.pattern is OpPattern.OUT_ELEMENTWISE_FUSABLE, [k])
            for k, n in enumerate(nodes)
        ]
        self._dominators = self._post_dominators()

    def groups(self) -> list[int]:
        """Return the number of each node's group."""
        for phase in (0, 1):
            for k in range(len(self._nodes)):
                self._try_fuse(k, phase)
        return [group.root().members[0] for group in self._groups]

    # ------------------------------------------------------------------------------------ dominance

    def _post_dominators(self) -> list[_Dominator]:
        found = [_Dominator(None, 1, OpPattern.OPAQUE) for _ in self._nodes]
        for k in range(len(self._nodes) - 1, -1, -1):
            users = self._users[k]
            if self._nodes[k].escapes or not users:
                continue
            parent: int | None = users[0]
            pattern = max(self._nodes[user].pattern for user in users)
            for user in users[1:]:
                parent, pattern = _common_post_dominator(found, parent, user, pattern)
            depth = 1 if parent is None else found[parent].depth + 1
            found[k] = _Dominator(parent, depth, pattern)
        return found

    # --------------------------------------------------------------------------------------- fusing

    def _try_fuse(self, k: int, phase: int) -> None:
        """Fuse a node into its post-dominator if the rule allows it."""
        group = self._groups[k]
        dominator = self._dominators[k]
        sink = dominator.parent
        if sink is None or group.pattern >= OpPattern.TUPLE:
            return
        if group.pattern is OpPattern.REDUCTION or group.root() is self._groups[sink].root():
            return
        allowed = _fusion_rule(group.pattern, dominator.pattern, phase)
        if allowed is None:
            return
        between = self._between(k, sink, allowed)
        if between is not None:
            self._merge([k, *between], sink)

    def _between(
        self, source: int, sink: int, allowed: Callable[[OpPattern, bool], bool]
    ) -> list[int] | None:
        """Return the nodes on paths from a node to a later one.

        Return None if one of them is not `allowed`.
        """
        found: dict[int, None] = {}
        waiting = [source]
        while waiting:
            for user in self._users[waiting.pop()]:
                if user in found:
                    continue
                if not allowed(self._groups[user].root().pattern, user == sink):
                    return None
                if user == sink:
                    continue
                found[user] = None
                if len(found) > self._limit:
                    return None
                waiting.append(user)
        return list(found)

    def _merge(self, nodes: Sequence[int], sink: int) -> None:
        target = self._groups[sink].root()
        others = {id(root): root for k in nodes if (root := self._groups[k].root()) is not target}
        if sum(group.has_anchor for group in (target, *others.values())) > 1:
            return
        members = [k for group in (target, *others.values()) for k in group.members]
        if len(members) > self._limit or self._copies(members) > MAX_COPIES:
            return
        for group in others.values():
            group.parent = target
            target.members += group.members
            target.pattern = max(target.pattern, group.pattern)
            target.has_anchor = target.has_anchor or group.has_anchor

    def _copies(self, members: Sequence[int]) -> int:
        """Return the number of additional copies of calls after inlining."""
        written = dict.fromkeys(members, 0)
        total = 0
        for k in sorted(members, reverse=True):
            node = self._nodes[k]
            is_inlined = node.pattern <= OpPattern.INJECTIVE
            count = max(written[k], 1) if is_inlined else 1
            total += count - 1
            for source in node.inputs:
                if source in written:
                    written[source] += count
        return total


def _fusion_rule(
    pattern: OpPattern, on_the_way: OpPattern, phase: int
) -> Callable[[OpPattern, bool], bool] | None:
    """Return the predicate for calls on the paths to the post-dominator; None to prevent fusion."""
    if pattern is OpPattern.OUT_ELEMENTWISE_FUSABLE:
        if phase or on_the_way is not OpPattern.ELEMENTWISE:
            return None
        return lambda other, is_sink: other <= OpPattern.BROADCAST
    if pattern <= OpPattern.BROADCAST:
        if on_the_way > OpPattern.REDUCTION:
            return None
        return _into_elements_or_reductions
    if phase:
        return lambda other, is_sink: other <= OpPattern.INJECTIVE
    return None


def _into_elements_or_reductions(other: OpPattern, is_sink: bool) -> bool:
    if is_sink:
        return other <= OpPattern.OUT_ELEMENTWISE_FUSABLE
    return other <= OpPattern.INJECTIVE


def _common_post_dominator(
    found: Sequence[_Dominator], a: int | None, b: int | None, pattern: OpPattern
) -> tuple[int | None, OpPattern]:
    """Return the nearest common post-dominator of two nodes, and the highest pattern up to it."""
    while a != b:
        if a is None or b is None:
            return None, OpPattern.OPAQUE
        if found[a].depth < found[b].depth:
            a, b = b, a
        pattern = max(pattern, found[a].pattern)
        a = found[a].parent
    return a, pattern
