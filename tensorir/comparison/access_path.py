"""Access paths to parts of a program, such as `<root>.functions['main'].body.extent`.

Steps are `.field`, `[index]` and `['key']`; an entry of `buffer_map` is indexed by the position of
its parameter. A last step `[<missing ...>]` marks a part that only the other program has.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from tensorir.errors import IRValueError
from tensorir.function import PrimFunc
from tensorir.nodes.node import Node

_ROOT: Final = "<root>"
_STEP: Final = re.compile(
    r"""\.(?P<field>\w+) | \[(?P<index>\d+)\] | \[(?P<key>'.*?'|".*?")\] | \[<missing[^]]*>\]$""",
    re.VERBOSE,
)


def nodes_along(root: Node, path: str) -> list[Node]:
    """Return the nodes on a path, from `root` to the innermost node.

    Raises IRValueError if the text is not a path, or if a step does not exist.
    """
    if not path.startswith(_ROOT):
        raise IRValueError(f"an access path must begin with {_ROOT}, got {path!r}")
    nodes, current, position = [root], root, len(_ROOT)
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise IRValueError(
                f"{path!r} is not a path: {path[position:]!r} must be `.field`, `[0]` or `['key']`"
            )
        position = step.end()
        if step.lastgroup is None:
            break
        try:
            current = _follow(current, step)
        except (AttributeError, LookupError, TypeError) as error:
            raise IRValueError(
                f"the path {path} does not exist: {path[: step.start()]} has no {step[0]}"
            ) from error
        if isinstance(current, Node):
            nodes.append(current)
    return nodes


def _follow(value: Any, step: re.Match[str]) -> Any:
    if step["field"] == "buffer_map" and isinstance(value, PrimFunc):
        return [value.buffer_map.get(param) for param in value.params]
    if step["field"]:
        return getattr(value, step["field"])
    return value[int(step["index"]) if step["index"] else ast.literal_eval(step["key"])]
