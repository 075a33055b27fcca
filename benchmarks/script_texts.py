"""Script text of programs: blocks in loops, a line of Python for each."""

from __future__ import annotations

from textwrap import dedent, indent

STEP = "    "


def nest(
    name: str, axes: str, body: str, *, init: str = "", where: str = "", order: str = ""
) -> str:
    """Return a block in a loop for each of its axes.

    In "S i 8, R k 3" the loop `i` has 8 iterations, to which the spatial axis `vi` is bound, and
    the loop `k` 3, to which the reduction axis `vk` is bound. In "R k i:8" the loop `k` has `i`
    iterations, and its axis the extent 8. `order` names the loops from the outermost inwards.
    """
    loops, bindings = {}, []
    for axis in axes.split(", "):
        kind, var, extents = axis.split(" ", 2)
        loop, _, extent = extents.partition(":")
        loops[var] = f"for {var} in range({loop}):"
        role = "spatial" if kind == "S" else "reduce"
        bindings.append(f"v{var} = T.axis.{role}({extent or loop}, {var})")
    lines = [STEP * depth + loops[var] for depth, var in enumerate(order.split() or loops)]
    inner = [*bindings, *([f"T.where({where})"] if where else [])]
    inner += ["with T.init():", *(STEP + line for line in init.splitlines())] if init else []
    inner += body.splitlines()
    lines += [STEP * len(loops) + f'with T.block("{name}"):']
    lines += [STEP * (len(loops) + 1) + line for line in inner]
    return "\n".join(lines)


def allocated(names: str, *shape: int | str, dtype: str = "float32") -> str:
    """Return the lines that allocate buffers of a shape."""
    extents = ", ".join(map(str, shape)) + ","
    return "\n".join(f'{n} = T.alloc_buffer(({extents}), "{dtype}")' for n in names.split())


def buffers(names: str, *shape: int, dtype: str = "float32") -> str:
    """Return parameters that are buffers of a shape."""
    extents = ", ".join(map(str, shape)) + ","
    return ", ".join(f'{n}: T.Buffer(({extents}), "{dtype}")' for n in names.split())


def function(params: str, *parts: str) -> str:
    """Return the function `main` of these statements."""
    body = "\n".join(dedent(part).strip("\n") for part in parts)
    return f"@T.prim_func\ndef main({params}):\n{indent(body, STEP)}\n"


def placed(loop: str, *parts: str) -> str:
    """Return statements below a line such as `for i in range(8):`."""
    return "\n".join([loop, *(indent(dedent(part).strip("\n"), STEP) for part in parts)])
