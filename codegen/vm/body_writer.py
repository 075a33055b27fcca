"""Writing the sequences of a graph function: its frame, runs of machine code, steps, memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from codegen.errors import CodegenError
from codegen.signature import Dim, dim_of
from codegen.vm import program as p
from codegen.vm import segments as seg
from codegen.vm.segments import Address, Root
from tensorir.memory.alignment import align
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, StringImm, Var
from tensorir.relax import struct_info as si
from tensorir.relax.building import UniqueNames
from tensorir.relax.relations import Fits, fits, is_base_of
from tensorir.rewriting.visit import collect_vars


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor at an address that is known to machine code."""

    address: Address
    info: si.TensorStructInfo


@dataclass(frozen=True, slots=True)
class Held:
    """A value that a register holds."""

    register: int
    info: si.StructInfo


@dataclass(frozen=True, slots=True)
class Known:
    """A number, a string, a shape: a value without tensors."""

    operand: p.Operand
    scalar: PrimExpr | None = None
    extents: tuple[PrimExpr, ...] | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that tensors share."""

    start: Address


Value: TypeAlias = "Place | Held | Known | Storage | tuple[Value, ...]"


def places_of(value: Value) -> list[Place]:
    """Return the tensors of a value whose addresses machine code knows."""
    if isinstance(value, tuple):
        return [place for part in value for place in places_of(part)]
    return [value] if isinstance(value, Place) else []


def tensor_text(info: si.TensorStructInfo) -> str:
    """Return dtype and shape for messages."""
    assert info.shape is not None
    extents = (str(n.value if isinstance(n, IntImm) else n) for n in info.shape)
    return f"{info.dtype}[{', '.join(extents)}]"


@dataclass(slots=True)
class FrameLayout:
    """The slots and registers of a frame of the function `name`."""

    name: str
    slots: list[Root | Var] = field(default_factory=list)
    registers: int = 0
    """The number of registers."""
    sizes: dict[Var, str] = field(default_factory=dict)
    """The defined sizes with their names."""
    entry_sizes: frozenset[Var] = frozenset()
    """The sizes that the parameters define."""
    _is_entered: bool = False
    _names: UniqueNames = field(default_factory=lambda: UniqueNames(separator="_"))
    arena: Root = field(init=False)
    constants: Root = field(init=False)

    def enter(self) -> None:
        """End the parameters and results; later sizes belong to the body."""
        self.arena = self.root("arena", None)
        self.constants = self.root("constants", None)
        self.slots += self.sizes
        self.entry_sizes = frozenset(self.sizes)
        self._is_entered = True

    def register(self) -> int:
        """Return a new register."""
        self.registers += 1
        return self.registers - 1

    def root(
        self, name: str, info: si.TensorStructInfo | None, nbytes: PrimExpr | None = None
    ) -> Root:
        """Return a new root, which has a slot, and a register unless it is memory of the frame."""
        has_register = info is not None or nbytes is not None
        register = self.register() if has_register else p.NONE
        root = Root(name, len(self.slots), info, register, nbytes)
        self.slots.append(root)
        return root

    def is_entered(self, *exprs: PrimExpr | None) -> bool:
        """Return True if values depend on the sizes of the parameters only."""
        return all(
            var in self.entry_sizes
            for expr in exprs
            if expr is not None
            for var in collect_vars(expr)
        )

    def define_sizes(self, infos: Iterable[si.StructInfo]) -> None:
        """Name the sizes that are extents of values, which define them."""
        for info in infos:
            for part in si.leaves(info):
                for extent in si.defining_extents(part):
                    if isinstance(extent, Var) and extent not in self.sizes:
                        self.sizes[extent] = self._names.unique(extent.name)
                        if self._is_entered:
                            self.slots.append(extent)

    def dim(self, extent: PrimExpr) -> Dim:
        """Return an extent as data; CodegenError for an undefined size."""
        for var in collect_vars(extent):
            if var not in self.sizes:
                raise CodegenError(
                    f"cannot compile graph function {self.name}: the size {var.name} is not the "
                    f"extent of a parameter or match_cast"
                )
        return dim_of(extent, self.sizes, self.name)

    def dims(self, info: si.TensorStructInfo) -> tuple[Dim, ...]:
        """Return the extents of a tensor as data."""
        assert info.shape is not None
        return self._dims(info.shape)

    def fresh(self, root: Root, name: str) -> p.Fresh:
        """Return a new array of each call for a root."""
        assert root.info is not None
        return p.Fresh(root.slot, root.register, self.dims(root.info), str(root.info.dtype), name)

    def _dims(self, extents: Sequence[PrimExpr]) -> tuple[Dim, ...]:
        return tuple(self.dim(n) for n in extents)

    def is_known(self, info: si.TensorStructInfo, sizes: Iterable[Var]) -> bool:
        """Return True if the dtype is known and the extents depend on these sizes only."""
        if info.shape is None or info.dtype is None:
            return False
        given = set(sizes)
        return all(var in given for extent in info.shape for var in collect_vars(extent))

    def expect(self, name: str, info: si.StructInfo) -> tuple[p.Pattern, Value]:
        """Return the pattern for a value of struct info `info`, and the value.

        New sizes in `info` are defined by it.
        """
        self.define_sizes([info])
        if isinstance(info, si.TensorStructInfo):
            return self._expect_tensor(name, info)
        if isinstance(info, si.TupleStructInfo):
            parts = [self.expect(f"{name}[{k}]", part) for k, part in enumerate(info.elements)]
            return p.TuplePattern(name, tuple(x for x, _ in parts)), tuple(v for _, v in parts)
        register = self.register()
        held = Held(register, info)
        if isinstance(info, si.ShapeStructInfo):
            extents = None if info.values is None else self._dims(info.values)
            pattern = p.ShapePattern(name, extents, info.ndim, register)
            if info.values is None:
                return pattern, held
            assert extents is not None
            return pattern, Known(p.Register(register), None, info.values)
        if isinstance(info, si.PrimStructInfo):
            value = None if info.value is None else self.dim(info.value)
            known = Known(p.Register(register), info.value)
            return p.ScalarPattern(name, str(info.dtype), value, register), known
        return p.AnyPattern(name, register), held

    def _expect_tensor(self, name: str, info: si.TensorStructInfo) -> tuple[p.Pattern, Value]:
        shape = None if info.shape is None else self._dims(info.shape)
        dtype = None if info.dtype is None else str(info.dtype)
        if shape is None or dtype is None:
            register = self.register()
            return p.TensorPattern(name, shape, info.ndim, dtype, register), Held(register, info)
        root = self.root(name, info)
        pattern = p.TensorPattern(name, shape, info.ndim, dtype, root.register, root.slot)
        return pattern, Place(Address(root), info)

    def result_roots(self, info: si.StructInfo) -> dict[si.Path, Root]:
        """Return memory for the tensors of the result whose extents the parameters define."""
        roots: dict[si.Path, Root] = {}
        for path, part in si.fields_of(info):
            known = isinstance(part, si.TensorStructInfo) and self.is_known(part, self.sizes)
            if known and isinstance(part, si.TensorStructInfo):
                name = "result" + "".join(f"_{k}" for k in path)
                roots[path] = self.root(name, part)
        return roots


@dataclass(slots=True)
class Body:
    """The translation of a function or branch so far: its steps, and the open run."""

    steps: list[p.Step] = field(default_factory=list)
    operations: list[seg.Operation] = field(default_factory=list)


class BodyWriter:
    """Writes a graph function. The open body, to which steps are added, is its own or a branch.

    With `one_by_one` every call is a separate run. With `on_device` runs are calls of kernels of a
    GPU; the arrays that steps of Python use are copied between its memory and that of the frame.
    """

    def __init__(self, name: str, one_by_one: bool, on_device: bool) -> None:
        self._name = name
        self._one_by_one = one_by_one
        self._on_device = on_device
        self._binding = ""
        """The name of the current binding, for errors and profiles."""
        self._layout = FrameLayout(name)
        self._arena_bytes = 0
        self._body = Body()
        self._branches = 0
        """The number of branches around the open body."""
        self._segments: dict[str, tuple[seg.Operation, ...]] = {}
        """The runs of machine code by symbol, before they are written as tensor functions."""
        self._checks: list[p.Step] = []
        """Checks of sizes before anything runs."""
        self._prepared: list[tuple[int, p.Operand]] = []
        self._views: dict[tuple[Root, str], int] = {}
        self._temporaries: list[p.Fresh] = []
        self._own: set[Root] = set()
        """Roots of arrays of one call that are not yet part of its result."""

    # -------------------------------------------------------------------------------------- bodies

    def _step(self, step: p.Step) -> None:
        self._close()
        read = p.registers_of(step) if self._on_device else ()
        if read:
            self._body.steps.append(p.ToHost(read))
        self._body.steps.append(step)
        if read and isinstance(step, (p.CallLibrary, p.CallGraph)):
            self._body.steps.append(p.ToDevice(read))

    def _operation(self, operation: seg.Operation, function: str, operands: str = "") -> None:
        self._body.operations.append(operation)
        if self._one_by_one:
            self._close(function, operands)

    def _close(self, function: str = "", operands: str = "") -> None:
        """End the open run of machine code."""
        if not self._body.operations:
            return
        if self._on_device:
            calls = tuple(map(self._device_call, self._body.operations))
            self._body.operations.clear()
            self._body.steps.append(p.Run("", function, self._binding, operands, calls))
            return
        symbol = f"{self._name}.part{len(self._segments)}"
        self._segments[symbol] = tuple(self._body.operations)
        self._body.operations.clear()
        self._body.steps.append(p.Run(symbol, function, self._binding, operands))

    def _device_call(self, operation: seg.Operation) -> p.KernelCall | p.MemoryCopy:
        if isinstance(operation, seg.Copy):
            source, destination = map(self._pointer, (operation.source, operation.destination))
            return p.MemoryCopy(source, destination, self._layout.dim(operation.nbytes))
        assert isinstance(operation, seg.CallKernel)
        arguments: list[p.Pointer | p.Literal | p.Size] = []
        for argument in operation.arguments:
            assert not isinstance(argument, seg.CalleeArena)
            if isinstance(argument, Address):
                arguments.append(self._pointer(argument))
            else:
                arguments.append(self._scalar_operand(argument))
        return p.KernelCall(operation.name, tuple(arguments))

    def _pointer(self, address: Address) -> p.Pointer:
        return p.Pointer(address.root.slot, self._layout.dim(address.offset), address.is_far)

    def _scalar_operand(self, value: PrimExpr) -> p.Literal | p.Size:
        if isinstance(value, IntImm):
            return p.Literal(bool(value.value) if value.dtype.is_bool else value.value)
        if isinstance(value, (FloatImm, StringImm)):
            return p.Literal(value.value)
        return p.Size(self._layout.dim(value))

    # -------------------------------------------------------------------------------------- memory

    def _memory(self, name: str, info: si.TensorStructInfo) -> Place:
        """Return memory for a tensor that is not in a planned arena."""
        nbytes = info.static_bytes
        if nbytes is not None:
            offset = self._arena_bytes
            self._arena_bytes += align(nbytes)
            return Place(Address.at(self._layout.arena, offset), info)
        root = self._layout.root(name, info)
        array = self._layout.fresh(root, name)
        if self._layout.is_known(info, self._layout.entry_sizes):
            self._temporaries.append(array)
        else:
            self._own.add(root)
            self._step(p.Allocate(array))
        return Place(Address(root), info)

    def _require(self, value: Place, expected: si.TensorStructInfo, what: str) -> None:
        """Check the unknown parts of a tensor's shape at run time, if possible at the start."""
        sizes = expected.static_shape
        same = sizes is not None and sizes == value.info.static_shape
        if same and expected.dtype == value.info.dtype:
            return
        answer = fits(expected, value.info)
        if answer is Fits.YES:
            return
        if answer is Fits.NO:
            self._fail(f"{what} is {tensor_text(value.info)}, expected {tensor_text(expected)}")
        assert expected.shape is not None
        extents = self._layout.dims(expected)
        shape = Known(p.Shape(self._layout.dims(value.info)), None, value.info.shape)
        used = {var for n in expected.shape for var in collect_vars(n)}
        place = f"{self._name}: {self._binding}"
        step = p.Match(self._hold(shape), p.ShapePattern(what, extents, len(extents)), place)
        known = self._is_prepared(shape) and used <= self._layout.entry_sizes
        if known and not self._branches:
            self._checks.append(step)
        else:
            self._step(step)

    def _copy(self, source: Place, destination: Place) -> None:
        self._require(source, destination.info, "the copied tensor")
        if not source.address.is_same(destination.address):
            nbytes = seg.tensor_bytes(destination.info)
            self._operation(seg.Copy(source.address, destination.address, nbytes), "copy")

    # ------------------------------------------------------------------------- values for Python

    def _hold(self, value: Value) -> int:
        """Return the register of a value for Python."""
        if isinstance(value, Held):
            return value.register
        if isinstance(value, Place):
            return value.address.root.register if self._is_whole(value) else self._view(value)
        if isinstance(value, Known) and isinstance(value.operand, p.Register):
            return value.operand.number
        register = self._layout.register()
        operand = self._operand(value)
        if isinstance(value, Known) and self._is_prepared(value):
            self._prepared.append((register, operand))
        else:
            self._step(p.Assemble(register, operand))
        return register

    @staticmethod
    def _is_whole(place: Place) -> bool:
        """Return True if a tensor is the array that the register of its root holds."""
        info = place.address.root.info
        return info is not None and (info is place.info or is_base_of(info, place.info))

    def _view(self, place: Place) -> int:
        """Return the register of a tensor in shared memory, prepared with the frame if possible."""
        root, info, layout = place.address.root, place.info, self._layout
        assert info.shape is not None
        view = self._view_of(place)
        key = (root, repr(view))
        register = self._views.get(key)
        if register is None:
            register = layout.register()
            is_of_frame = root.info is None  # other roots are arrays that calls are given
            if is_of_frame and layout.is_entered(root.nbytes, place.address.offset, *info.shape):
                self._views[key] = register
                self._prepared.append((register, view))
            else:
                self._step(p.Assemble(register, view))
        return register

    def _view_of(self, place: Place) -> p.View:
        """Return the operand of a tensor in shared memory."""
        address, layout = place.address, self._layout
        return p.View(
            address.root.slot,
            layout.dim(address.offset),
            layout.dims(place.info),
            str(place.info.dtype),
            address.root.register,
            address.is_far,
        )

    def _is_prepared(self, value: Known) -> bool:
        return self._layout.is_entered(*(value.extents or ()), value.scalar)

    def _operand(self, value: Value) -> p.Operand:
        if isinstance(value, tuple):
            return p.Pack(tuple(p.Register(self._hold(part)) for part in value))
        if isinstance(value, Known):
            return value.operand
        if isinstance(value, Storage):
            self._fail(
                "a storage is used as a value; only the tensors that are allocated in it are values"
            )
        return p.Register(self._hold(value))

    def _fail(self, reason: str) -> NoReturn:
        where = f" at {self._binding}" if self._binding else ""
        raise CodegenError(f"cannot compile graph function {self._name}{where}: {reason}")
