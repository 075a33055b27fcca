"""The host's part of a device program: which kernels start, in which order, with which arguments.

A device program is the result of lowering for a GPU: a sequence of nests of thread-bound loops,
perhaps inside serial loops of the host and inside allocations of device memory. `launches` takes it
apart into one function a kernel and plain data for the host, which needs no compiler to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from codegen.errors import CodegenError
from codegen.lower.hoist_allocations import constant_bytes
from codegen.lower.thread_axes import AXES, BLOCK, axis_of, is_kernel, padded_bytes
from codegen.signature import (
    Dim,
    Signature,
    dim_from_data,
    dim_of,
    evaluate_dim,
    signature_of,
    symbolic_vars,
    unique_names,
)
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.memory.value_variables import scalar_values
from tensorir.memory.written_parameters import written_pointers
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.stmt import Allocate, BufferStore, For, ForKind, SeqStmt, Stmt
from tensorir.rewriting.visit import collect_vars, walk


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel that starts once: `grid` blocks of `block` threads."""

    kernel: str
    grid: tuple[Dim, Dim, Dim]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[int | str, ...]
    """Positions of parameters; names of symbolic extents, temporaries and variables of loops."""


@dataclass(frozen=True, slots=True)
class HostLoop:
    """Steps that the host repeats for `variable` in [start, start + extent)."""

    variable: str
    nbytes: int
    """The size of the variable."""
    start: Dim
    extent: Dim
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Temporary:
    """Device memory of `nbytes` bytes that lives during some steps."""

    name: str
    nbytes: Dim
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class HostBranch:
    """Steps that the host chooses by a condition, which is 0 or 1."""

    condition: Dim
    steps: tuple[Step, ...]
    otherwise: tuple[Step, ...]


Step: TypeAlias = Launch | HostLoop | HostBranch | Temporary
Argument: TypeAlias = tuple[int, int] | bytes
"""The number of an array with an offset in bytes, or the bytes of a scalar."""
Start: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...], int, list[Argument]]
"""A kernel by name, its grid and block, the bytes of shared memory of a block, its arguments."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as a program: a nest of thread-bound loops over pointers and scalars."""

    name: str
    func: PrimFunc
    """Its parameters are data pointers and scalars, in the order of a launch's arguments."""
    block: tuple[int, int, int]
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class HostProgram:
    """A device program taken apart: the interface, the steps of the host, and the kernels."""

    signature: Signature
    steps: tuple[Step, ...]
    kernels: tuple[Kernel, ...]


def launches(func: PrimFunc, name: str = "main") -> HostProgram:
    """Take a device program apart; its kernels are called `main_kernel`, `main_kernel_1`, ...

    Raises CodegenError for statements outside of kernels other than serial loops, branches and
    allocations of global memory, and for thread axes that are bound twice or to an extent that is
    not constant.
    """
    return _Splitter(func, name).program()


def flat_launches(
    steps: Sequence[Step], values: Mapping[str, int], arguments: Mapping[int | str, Argument]
) -> Iterator[Start]:
    """Yield the launches of a call in order.

    `values` are the integers that extents depend on.
    """
    for step in steps:
        if isinstance(step, Launch):
            grid = tuple(max(0, number_of(dim, values)) for dim in step.grid)
            passed = [arguments[a] for a in step.arguments]
            yield step.kernel, grid, step.block, step.shared_bytes, passed
        elif isinstance(step, Temporary):
            yield from flat_launches(step.steps, values, arguments)
        elif isinstance(step, HostBranch):
            chosen = step.steps if number_of(step.condition, values) else step.otherwise
            yield from flat_launches(chosen, values, arguments)
        else:
            start, extent = (number_of(dim, values) for dim in (step.start, step.extent))
            for k in range(start, start + extent):
                known = k.to_bytes(step.nbytes, "little", signed=True)
                yield from flat_launches(
                    step.steps,
                    {**values, step.variable: k},
                    {**arguments, step.variable: known},
                )


def temporaries(steps: Sequence[Step]) -> Iterator[Temporary]:
    """Yield the temporaries of some steps."""
    for step in steps:
        if not isinstance(step, Launch):
            yield from temporaries(step.steps)
        if isinstance(step, HostBranch):
            yield from temporaries(step.otherwise)
        if isinstance(step, Temporary):
            yield step


def number_of(dim: Dim, values: Mapping[str, int]) -> int:
    """Return the value of an extent all variables of which have one."""
    found = evaluate_dim(dim, values)
    assert found is not None, dim
    return found


class _Splitter:
    def __init__(self, func: PrimFunc, name: str) -> None:
        self._func = func
        self._name = name
        self._kernels: list[Kernel] = []
        self._written = written_pointers(func)
        self._values = scalar_values(func)
        """The scalars on which arithmetic wraps around."""
        inner = [node for node in walk(func.body) if isinstance(node, (Allocate, For))]
        self._loop_vars = {node.loop_var for node in inner if isinstance(node, For)}
        own = [n.buffer_var if isinstance(n, Allocate) else n.loop_var for n in inner]
        self._names = unique_names([*func.params, *symbolic_vars(func), *own])
        self._host: dict[Var, int | str] = {v: self._names[v] for v in symbolic_vars(func)}
        """The variables in scope on the host, with the arguments of a launch that hold them."""
        for number, param in enumerate(func.params):
            buffer = func.buffer_map.get(param)
            self._host[param if buffer is None else buffer.data] = number

    def program(self) -> HostProgram:
        signature = signature_of(self._func, self._name, self._name, self._written)
        if signature.result is not None:
            raise CodegenError(
                f"{self._name} returns a value, which a function for a GPU cannot; store it to a "
                "buffer"
            )
        for parameter in signature.parameters:
            if parameter.kind == "pointer":
                self._fail(f"parameter {parameter.name} is a pointer; a GPU takes buffers")
            # A variable is 0 for arrays of a device, which are whole.
            if parameter.elem_offset and not isinstance(parameter.elem_offset, str):
                self._fail(f"buffer {parameter.name} begins inside of an array; a GPU takes arrays")
        return HostProgram(signature, self._steps(self._func.body), tuple(self._kernels))

    def _steps(self, node: Stmt) -> tuple[Step, ...]:
        if isinstance(node, SeqStmt):
            return tuple(step for part in node.seq for step in self._steps(part))
        if is_kernel(node):
            return (self._launch(node),)
        if isinstance(node, For) and node.kind in (ForKind.SERIAL, ForKind.UNROLLED):
            self._host[node.loop_var] = name = self._names[node.loop_var]
            start, extent = self._dim(node.min), self._dim(node.extent)
            nbytes = node.loop_var.dtype.nbytes
            return (HostLoop(name, nbytes, start, extent, self._steps(node.body)),)
        if isinstance(node, s.IfThenElse):
            steps = self._steps(node.then_case)
            otherwise = () if node.else_case is None else self._steps(node.else_case)
            condition = dim_of(node.condition, self._names, self._name, self._values)
            return (HostBranch(condition, steps, otherwise),)
        if isinstance(node, Allocate) and memory_of(node.buffer_var) == "global":
            self._host[node.buffer_var] = name = self._names[node.buffer_var]
            size: Dim = node.dtype.nbytes
            for factor in node.extents:
                if self._loop_vars & set(collect_vars(factor)):
                    self._fail(f"the size of {node.buffer_var.name} changes in a loop of the host")
                size = ("*", size, self._dim(factor))
            return (Temporary(name, size, self._steps(node.body)),)
        if isinstance(node, s.Evaluate) and type(node.value) is IntImm:
            return ()
        text = str(node).strip().splitlines()[-1].strip()
        raise CodegenError(
            f"{self._name} has a statement outside of its kernels: {text!r}; put it into loops "
            "that are bound to blockIdx and threadIdx"
        )

    def _launch(self, nest: Stmt) -> Launch:
        number = len(self._kernels)
        name = f"{self._name}_kernel" + (f"_{number}" if number else "")
        grid: list[Dim] = [1, 1, 1]
        block = [1, 1, 1]
        shared_bytes = 0
        bound: set[str] = set()
        node: Stmt = nest
        while True:
            if isinstance(node, For) and node.kind is ForKind.THREAD_BINDING:
                tag = axis_of(node)
                kind, _, letter = tag.partition(".")
                if tag not in AXES or tag in bound:
                    problem = "is bound twice" if tag in bound else "is no thread axis of a kernel"
                    self._fail(f"axis {tag!r} of loop {node.loop_var.name} {problem}")
                bound.add(tag)
                axis = "xyz".index(letter)
                if kind == BLOCK:
                    grid[axis] = self._dim(node.extent)
                elif type(node.extent) is IntImm:
                    block[axis] = node.extent.value
                else:
                    self._fail(f"loop {node.loop_var.name} binds {tag} to {node.extent} threads")
            elif isinstance(node, Allocate) and memory_of(node.buffer_var) == "shared":
                nbytes = constant_bytes(node)
                if nbytes is None:
                    self._fail(f"the size of {node.buffer_var.name} in shared memory varies")
                shared_bytes += padded_bytes(nbytes)
            else:
                break
            node = node.body
        captured = self._captured(nest)
        attrs = {k: v for k, v in self._func.attrs.items() if k != "global_symbol"}
        kernel = PrimFunc(captured, nest, attrs={**attrs, "global_symbol": name})
        x, y, z = block
        self._kernels.append(Kernel(name, kernel, (x, y, z), shared_bytes))
        arguments = tuple(self._host[var] for var in captured)
        return Launch(name, (grid[0], grid[1], grid[2]), (x, y, z), shared_bytes, arguments)

    def _captured(self, nest: Stmt) -> list[Var]:
        used: dict[Var, None] = {}
        for part in walk(nest):
            if isinstance(part, Var):
                used[part] = None
            elif isinstance(part, (BufferLoad, BufferStore)):
                used[part.buffer.data] = None
        return [var for var in used if var in self._host]

    def _dim(self, node: PrimExpr) -> Dim:
        return dim_of(node, self._names, self._name)

    def _fail(self, reason: str) -> NoReturn:
        raise CodegenError(f"cannot compile {self._name}: {reason}")


# --------------------------------------------------------------------------------------------- data


def step_to_data(step: Step) -> list[Any]:
    """Return a step in the types of JSON."""
    if isinstance(step, Launch):
        shape = step.grid, step.block, step.shared_bytes
        return ["launch", step.kernel, *shape, step.arguments]
    inner = [step_to_data(part) for part in step.steps]
    if isinstance(step, Temporary):
        return ["temporary", step.name, step.nbytes, inner]
    if isinstance(step, HostBranch):
        return ["branch", step.condition, inner, [step_to_data(part) for part in step.otherwise]]
    return ["loop", step.variable, step.nbytes, step.start, step.extent, inner]


def step_from_data(data: Sequence[Any]) -> Step:
    """Return the step that `step_to_data` made data of."""
    kind, name, *rest = data
    if kind == "launch":
        (gx, gy, gz), (bx, by, bz), shared_bytes, arguments = rest
        grid = dim_from_data(gx), dim_from_data(gy), dim_from_data(gz)
        return Launch(name, grid, (bx, by, bz), shared_bytes, tuple(arguments))
    if kind == "branch":
        then, otherwise = (tuple(map(step_from_data, part)) for part in rest)
        return HostBranch(dim_from_data(name), then, otherwise)
    *dims, inner = rest
    steps = tuple(step_from_data(part) for part in inner)
    if kind == "temporary":
        return Temporary(name, dim_from_data(dims[0]), steps)
    nbytes, start, extent = dims
    return HostLoop(name, nbytes, dim_from_data(start), dim_from_data(extent), steps)
