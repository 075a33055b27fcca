"""The description of compiled functions, which is stored with their machine code in an archive.

The form is JSON next to the machine code, so that a library is callable, with all checks, without
the program it came from.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from codegen.errors import CodegenError, LinkError
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import BOOL, HANDLE, DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic, is_scalar_integer
from tensorir.rewriting.visit import collect_vars
from tensorir.semantics import EXACT, evaluate

FORMAT_VERSION: Final = 4

Dim: TypeAlias = "int | str | tuple[str, Dim, Dim]"
"""An extent: a number, the name of a variable, or an operator on two extents; a condition is 0 or
1."""

_OPERATORS: Final[dict[str, type[e.BinaryOp]]] = {
    kind.symbol: kind
    for kind in (
        *(e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max),
        *(e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or),
    )
}


_WRAPPING: Final = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.Cast)
"""The operations whose exact results may be out of the range of their dtype."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a compiled function."""

    name: str
    kind: Literal["buffer", "scalar", "pointer"]
    dtype: DataType
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] = ()
    """The strides in elements; empty for the compact row-major layout."""
    elem_offset: Dim = 0
    """The number of elements before the first one, which the function itself skips."""
    written: bool = True

    @property
    def dims(self) -> tuple[Dim, ...]:
        """All extents that may mention variables."""
        return (*self.shape, *self.strides, self.elem_offset)


@dataclass(frozen=True, slots=True)
class Signature:
    """The interface of a compiled function.

    `name` is its name in the module, `c_name` its name for C in an exported library, None for a
    function that only other functions of the module call. `symbols` are the variables that shapes
    bind; their values follow the arguments, as integers of the stated dtype. `result` is the dtype
    of the value that `T.ret` returns, if any.
    """

    name: str
    c_name: str | None
    parameters: tuple[Parameter, ...]
    symbols: tuple[tuple[str, DataType], ...] = ()
    result: DataType | None = None
    noalias: bool = False

    @property
    def passed(self) -> list[DataType]:
        """The types of the parameters of the machine code.

        Arguments, symbols, a pointer for a result.
        """
        types = [HANDLE if p.kind == "buffer" else p.dtype for p in self.parameters]
        types += [dtype for _, dtype in self.symbols]
        return types if self.result is None else [*types, HANDLE]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(_describe(p) for p in self.parameters)})"


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """The description that is stored with compiled code."""

    target: str
    architecture: str
    functions: tuple[Signature, ...]
    messages: tuple[str, ...] = ()
    externs: tuple[str, ...] = field(default=())
    needed_features: tuple[str, ...] = field(default=())
    """Features of the CPU, by LLVM's names, that the code may use."""
    library: Mapping[str, tuple[LibraryCall, ...]] = field(default_factory=dict)
    """Calls of Python functions, by function; a process that loads the code must register the
    callees.
    """

    @property
    def public(self) -> tuple[Signature, ...]:
        """The functions that can be called from outside."""
        return tuple(s for s in self.functions if s.c_name is not None)

    @staticmethod
    def merged(target: str, architecture: str, infos: Iterable[ModuleInfo]) -> ModuleInfo:
        """Return one description for the functions of several descriptions."""
        every = list(infos)
        return ModuleInfo(
            target,
            architecture,
            tuple(s for info in every for s in info.functions),
            tuple(dict.fromkeys(m for info in every for m in info.messages)),
            tuple(sorted({name for info in every for name in info.externs})),
            tuple(sorted({name for info in every for name in info.needed_features})),
            {name: calls for info in every for name, calls in info.library.items()},
        )

    def to_json(self) -> str:
        """Return the description as JSON."""
        data = {"version": FORMAT_VERSION, **_by_name(self)}
        return json.dumps(data, default=_plain, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> ModuleInfo:
        """Read a description; LinkError if it is of another version."""
        data = json.loads(text)
        if data.get("version") != FORMAT_VERSION:
            raise LinkError(
                f"the code was compiled with format {data.get('version')} of its description, this "
                f"release reads {FORMAT_VERSION}; compile it again"
            )
        return ModuleInfo(
            data["target"],
            data["architecture"],
            tuple(_from_data(s) for s in data["functions"]),
            tuple(data["messages"]),
            tuple(data["externs"]),
            tuple(data["needed_features"]),
            {
                name: tuple(call_from_data(call) for call in calls)
                for name, calls in data["library"].items()
            },
        )


def _describe(parameter: Parameter) -> str:
    if parameter.kind != "buffer":
        return f"{parameter.name}: {parameter.dtype}"
    shape = ", ".join(dim_text(d) for d in parameter.shape)
    return f"{parameter.name}: {parameter.dtype}[{shape}]"


def dim_text(dim: Dim) -> str:
    """Return an extent as an expression."""
    if isinstance(dim, tuple):
        left, right = dim_text(dim[1]), dim_text(dim[2])
        return f"{dim[0]}({left}, {right})" if dim[0].isalpha() else f"({left} {dim[0]} {right})"
    return str(dim)


def evaluate_dim(dim: Dim, values: Mapping[str, int]) -> int | None:
    """Return the value of an extent, None if a variable that decides it is not known yet.

    Raises IRValueError for a division by 0, but not in the right side of a condition that its left
    side decides.
    """
    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        return values.get(dim)
    kind = _OPERATORS[dim[0]]
    left = evaluate_dim(dim[1], values)
    if left is None:
        return None
    if (kind is e.And and not left) or (kind is e.Or and left):
        return int(bool(left))
    right = evaluate_dim(dim[2], values)
    if right is None:
        return None
    exact = EXACT.get(kind)
    return int(evaluate(kind, BOOL, left, right)) if exact is None else exact(left, right)


# --------------------------------------------------------------------------------- from a function


def symbolic_vars(func: PrimFunc) -> list[Var]:
    """Return the variables that the shapes of buffer parameters bind, in order of first use."""
    scalars = set(func.params)
    found: dict[Var, None] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            for dim in buffer.layout:
                found.update(dict.fromkeys(v for v in collect_vars(dim) if v not in scalars))
    return list(found)


def signature_of(func: PrimFunc, name: str, c_name: str | None, written: set[Var]) -> Signature:
    """Return the signature of `func`; `written` are the data pointers through which it stores."""
    symbols = symbolic_vars(func)
    names = unique_names([*func.params, *symbols])
    parameters = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            parameters.append(
                Parameter(
                    buffer.name,
                    "buffer",
                    buffer.dtype,
                    tuple(dim_of(d, names, name) for d in buffer.shape),
                    tuple(dim_of(d, names, name) for d in buffer.strides),
                    dim_of(buffer.elem_offset, names, name),
                    buffer.data in written,
                )
            )
        else:
            kind: Literal["pointer", "scalar"] = "pointer" if param.dtype.is_handle else "scalar"
            parameters.append(Parameter(names[param], kind, param.dtype, written=param in written))
    result = getattr(func.ret_type, "dtype", None)
    noalias = func.attrs.get("tir.noalias")
    return Signature(
        name,
        c_name,
        tuple(parameters),
        tuple((names[v], v.dtype) for v in symbols),
        None if result is None or result == "void" else result,
        bool(noalias) if noalias is not None else False,
    )


def unique_names(variables: Sequence[Var]) -> dict[Var, str]:
    """Return a name for each variable, numbered where an earlier one has the same."""
    names: dict[Var, str] = {}
    taken: set[str] = set()
    for var in variables:
        name, k = var.name, 0
        while name in taken:
            k += 1
            name = f"{var.name}_{k}"
        taken.add(name)
        names[var] = name
    return names


def is_dim(node: PrimExpr) -> bool:
    """Return True if calls can evaluate an expression, so that `dim_of` takes it."""
    if isinstance(node, e.Cast):
        return is_scalar_integer(node.dtype) and is_dim(node.value)
    if isinstance(node, e.Not):
        return is_dim(node.a)
    if isinstance(node, e.BinaryOp):
        return _OPERATORS.get(node.symbol) is type(node) and is_dim(node.a) and is_dim(node.b)
    if isinstance(node, Var):
        # A call has the bits of a scalar as a signed integer.
        return node.dtype.is_bool or (is_scalar_integer(node.dtype) and node.dtype != "uint64")
    return isinstance(node, IntImm)


def dim_of(
    node: PrimExpr, names: Mapping[Var, str], function: str, values: Container[Var] = ()
) -> Dim:
    """Return an extent as data; CodegenError for operators that a call cannot evaluate.

    Arithmetic on variables in `values` wraps around at the width of its dtype.
    """
    if isinstance(node, IntImm):
        return node.value
    if isinstance(node, Var):
        return names[node]
    if isinstance(node, e.Cast):
        dim = dim_of(node.value, names, function, values)
    elif isinstance(node, e.Not):
        return "==", dim_of(node.a, names, function, values), 0
    elif isinstance(node, e.BinaryOp) and _OPERATORS.get(node.symbol) is type(node):
        left, right = (dim_of(part, names, function, values) for part in (node.a, node.b))
        dim = node.symbol, left, right
    else:
        raise CodegenError(
            f"cannot compile {function}: an extent is {node}, which calls cannot evaluate; they "
            f"have {' '.join(_OPERATORS)}"
        )
    if isinstance(node, _WRAPPING) and not is_index_arithmetic(node, values):
        return _wrapped(dim, node.dtype)
    return dim


def _wrapped(dim: Dim, dtype: DataType) -> Dim:
    """Return a number of any size as one of an integer dtype, with its lowest bits."""
    half = 1 << (dtype.bits - 1) if dtype.is_int else 0
    return "-", ("%", ("+", dim, half), 1 << dtype.bits), half


# --------------------------------------------------------------------------------------------- JSON


def _by_name(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _plain(value: Any) -> Any:
    """Return a part of a description as JSON types."""
    if isinstance(value, LibraryCall):
        return call_to_data(value)
    return [*_by_name(value).values()] if isinstance(value, Parameter) else _by_name(value)


def _from_data(data: dict[str, Any]) -> Signature:
    parameters = tuple(
        Parameter(
            name,
            kind,
            DataType(dtype),
            _dims(shape),
            _dims(strides),
            dim_from_data(offset),
            written,
        )
        for name, kind, dtype, shape, strides, offset, written in data["parameters"]
    )
    return Signature(
        data["name"],
        data["c_name"],
        parameters,
        tuple((name, DataType(dtype)) for name, dtype in data["symbols"]),
        None if data["result"] is None else DataType(data["result"]),
        data["noalias"],
    )


def _dims(values: list[Any]) -> tuple[Dim, ...]:
    return tuple(dim_from_data(v) for v in values)


def dim_from_data(value: Any) -> Dim:
    """Return the extent that JSON has in the form of lists."""
    return (
        (value[0], dim_from_data(value[1]), dim_from_data(value[2]))
        if isinstance(value, list)
        else value
    )


# ----------------------------------------------------------------------------------------- archives
#
# The form of a compiled module: an archive of the objects of its functions, and a description.
#
# It is an archive of `ar`, which `ar`, `nm` and `objdump` read. Members have short names, no dates
# and no owners: the same members are the same bytes.


_DESCRIPTION: Final = "module.json"
_MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60
_END: Final = b"`\n"
_LONGEST_NAME: Final = 15


def write_object_code(info: ModuleInfo, objects: Sequence[Mapping[str, bytes]]) -> bytes:
    """Return the objects of each function of `info`, in that order, and the description as data."""
    members = {_DESCRIPTION: info.to_json().encode()}
    for number, of_one in enumerate(objects):
        members.update((f"{kind}{number}.o", data) for kind, data in of_one.items())
    return _archive(members)


def read_object_code(data: bytes) -> tuple[ModuleInfo, dict[str, bytes]]:
    """Return the description, and the objects by name; LinkError if the data are something else."""
    members = _members_of(data) or {}
    description = members.pop(_DESCRIPTION, None)
    if description is None:
        raise LinkError(
            "the data is not an archive of codegen.compile_object of this release: it has no "
            "description; compile the program again"
        )
    return ModuleInfo.from_json(description.decode()), members


def _archive(members: Mapping[str, bytes]) -> bytes:
    """Return an archive of members, whose names have at most 15 characters of ASCII."""
    parts = [_MAGIC]
    for name, data in members.items():
        assert len(name) <= _LONGEST_NAME, name
        header = f"{name + '/':16}{0:<12}{0:<6}{0:<6}{'644':8}{len(data):<10}"
        parts += [header.encode("ascii"), _END, data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


def _members_of(data: bytes) -> dict[str, bytes] | None:
    """Return the members that `_archive` wrote, None for data that is not a complete archive."""
    if not data.startswith(_MAGIC):
        return None
    members = {}
    position = len(_MAGIC)
    while position < len(data):
        header = data[position : position + _HEADER]
        size = header[48:58].strip()
        start = position + _HEADER
        if header[58:] != _END or not size.isdigit() or start + int(size) > len(data):
            return None
        end = start + int(size)
        members[header[:16].decode("latin-1").rstrip().removesuffix("/")] = data[start:end]
        position = end + end % 2
    return members


# ------------------------------------------------------------------------------------ library calls
#
# A call of a library function in compiled code, as data that is stored with the machine code.
#
# Compiled code calls Python with the number of the call in its function and the address of an array
# of 8-byte slots. Slot 0 is for the result. Then follow the values that are known only at run time,
# in the order of the arguments: for an array its address, its symbolic extents and its strides; for
# a scalar its value as int64, uint64 or float64. The classes here have all other information.


Extent: TypeAlias = int | None
"""None for an extent that is passed in a slot."""


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array: `strides` are in elements, None for compact row-major."""

    dtype: DataType
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...] | None


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number, and the dtype of its slot."""

    kind: Literal["int", "uint", "float", "bool"]


@dataclass(frozen=True, slots=True)
class TextArgument:
    """A constant string."""

    text: str


Argument: TypeAlias = ArrayArgument | ScalarArgument | TextArgument


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of a library function in a program."""

    function: str
    """The name under which the function is registered."""
    arguments: tuple[Argument, ...]
    wants_result: bool
    """True if the program uses the result of the function, an int32."""


def call_to_data(call: LibraryCall) -> list[Any]:
    """Return a call as JSON types."""
    return [call.function, call.wants_result, [_argument_to_data(a) for a in call.arguments]]


def call_from_data(data: list[Any]) -> LibraryCall:
    """Return the call from the result of `call_to_data`."""
    function, wants_result, arguments = data
    return LibraryCall(function, tuple(_argument_from_data(a) for a in arguments), wants_result)


def _argument_to_data(argument: Argument) -> list[Any]:
    if isinstance(argument, ArrayArgument):
        return ["array", str(argument.dtype), argument.shape, argument.strides]
    if isinstance(argument, ScalarArgument):
        return ["scalar", argument.kind]
    return ["text", argument.text]


def _argument_from_data(data: list[Any]) -> Argument:
    if data[0] == "array":
        dtype, shape, strides = data[1:]
        return ArrayArgument(
            DataType(dtype), tuple(shape), None if strides is None else tuple(strides)
        )
    return ScalarArgument(data[1]) if data[0] == "scalar" else TextArgument(data[1])
