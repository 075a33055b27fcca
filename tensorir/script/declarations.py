"""The buffers, pointers and variables that a script declares by the `T` namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, Final

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes import ops
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import NE, PointerType, PrimType, TupleType, Type, Var
from tensorir.nodes.ops import as_expr, const, is_const_int
from tensorir.nodes.stmt import Allocate, AllocateConst, DeclBuffer, Stmt
from tensorir.script.constants import array_of_elements
from tensorir.script.records import BufferRecord, FreshVar, ScopeFrame, attributes, make_buffer
from tensorir.script.scope import Scope

Allocator = Callable[[BufferRecord], Buffer]
_ALLOCATE: Final[ContextVar[Allocator | None]] = ContextVar("allocate", default=None)
"""The function that allocates a buffer of the script's function, while Python code that it calls
runs.
"""


def _buffer_options(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
    type: str | None = None,
) -> dict[str, Any]:
    kind = type if type is not None else buffer_type
    if kind not in ("", "default", "auto"):
        raise IRValueError(f"buffer_type must be 'default' or 'auto', got {kind!r}")
    return {
        "shape": _checked_shape(shape),
        "dtype": dtype_text(dtype),
        "data": data,
        "strides": strides,
        "elem_offset": elem_offset,
        "scope": scope,
        "data_alignment": align,
        "offset_factor": offset_factor,
        "buffer_type": kind,
        "axis_separators": axis_separators,
    }


def _checked_shape(shape: Any) -> Any:
    """Return a shape, which may have sizes in quotes. Raises IRTypeError for other values."""
    for size in shape if isinstance(shape, (list, tuple)) else [shape]:
        if isinstance(size, (float, dict, list, tuple)) or size is None:
            raise IRTypeError(f"a shape must be a tuple of sizes, such as (n, 16), not {shape!r}")
        if isinstance(size, int) and size < 0:
            raise IRValueError(f"the sizes of a shape must be at least 0, got {size}")
    if isinstance(shape, str):
        raise IRTypeError(f"a shape must be a tuple of sizes, such as (n, 16), not {shape!r}")
    return shape


class BufferFactory:
    """`T.Buffer(shape, dtype, ...)` and the older `T.Buffer[shape, dtype]`."""

    def __call__(self, shape: Any, dtype: Any = "float32", **options: Any) -> Buffer | BufferRecord:
        """Return a new buffer, or a declaration if sizes are in quotes, as in a signature."""
        record = self.in_script(shape, dtype, **options)
        sizes = shape if isinstance(shape, (list, tuple)) else (shape,)
        return record if any(isinstance(size, str) for size in sizes) else record.build("buffer")

    def in_script(self, shape: Any, dtype: Any = "float32", **options: Any) -> BufferRecord:
        """Return a declaration; the buffer gets its name from the assignment."""
        return BufferRecord("Buffer", None, _buffer_options(shape, dtype, **options))

    def __getitem__(self, key: Any) -> BufferRecord:
        typed = isinstance(key, tuple) and len(key) > 1 and isinstance(key[1], str)
        return self.in_script(*key) if typed else self.in_script(key)

    def __repr__(self) -> str:
        return "T.Buffer"


def match_buffer(source: Any, shape: Any = None, *args: Any, **options: Any) -> BufferRecord:
    """Bind a parameter to a buffer, or view a region of a buffer in another layout."""
    if shape is None:
        if isinstance(source, BufferRegion):
            shape = [r.extent for r in source.region]
            options.setdefault("dtype", str(source.buffer.dtype))
        else:
            raise IRValueError("Shape must be specified when binding input param")
    return BufferRecord("match_buffer", source, _buffer_options(shape, *args, **options))


def alloc_buffer(
    shape: Any, *args: Any, annotations: dict[str, Any] | None = None, **options: Any
) -> BufferRecord | Buffer:
    """Allocate a buffer for the duration of a block instance.

    Returns the buffer itself inside Python code that a script calls.

    Newer releases of TVM write `align` as an annotation; `T.allocate` accepts all others.
    """
    notes = dict(attributes(annotations))
    if notes.pop("buffer_allocated_addr", None) or notes.keys() - {"buffer_data_alignment"}:
        raise IRValueError("an annotated allocation is written as T.allocate(..., annotations=...)")
    if "buffer_data_alignment" in notes:
        options.setdefault("align", notes["buffer_data_alignment"])
    record = BufferRecord("alloc_buffer", None, _buffer_options(shape, *args, **options))
    allocate = _ALLOCATE.get()
    return record if allocate is None else allocate(record)


@contextmanager
def called_from_script(allocate: Allocator | None) -> Iterator[None]:
    """Allow Python code that a script calls to allocate buffers of the script's function."""
    token = _ALLOCATE.set(allocate)
    try:
        yield
    finally:
        _ALLOCATE.reset(token)


def view(buffer: Buffer, *shape: Any) -> ScopeFrame:
    """View the memory of a compact buffer in another shape; a size of -1 is computed."""
    if buffer.strides:
        raise IRValueError(f"buffer {buffer.name} has strides; declare the view by T.decl_buffer")
    dims = [as_expr(size) for size in shape]
    if not all(size.dtype.is_int for size in dims):
        raise IRTypeError(
            "a view needs a shape; for another dtype write T.decl_buffer(shape, dtype, data=...)"
        )
    whole = reduce(ops.mul, buffer.shape, const(1))
    left = [k for k, size in enumerate(dims) if is_const_int(size, -1)]
    rest = reduce(ops.mul, (size for k, size in enumerate(dims) if k not in left), const(1))
    if len(left) == 1:
        dims[left[0]] = ops.floordiv(whole, rest)
        rest = ops.mul(rest, dims[left[0]])
    if len(left) > 1 or is_const_int(ops.compare(NE, whole, rest), 1):
        raise IRValueError(f"a view of {whole} elements cannot have a shape of {rest} elements")
    return decl_buffer(
        dims,
        buffer.dtype,
        data=buffer.data,
        elem_offset=buffer.elem_offset,
        scope=buffer.scope(),
        align=buffer.data_alignment,
        offset_factor=buffer.offset_factor,
    )


def decl_buffer(shape: Any, *args: Any, **options: Any) -> ScopeFrame:
    """View a pointer as a buffer; without `data`, allocate the memory as well."""
    return declared(_buffer_options(shape, *args, **options))


def declared(options: dict[str, Any]) -> ScopeFrame:
    """Return the scope that declares a buffer with the options of a `BufferRecord`."""

    def make(buffer: Buffer, body: Stmt) -> Stmt:
        declaration = DeclBuffer(buffer, body)
        if options["data"] is not None:
            return declaration
        return Allocate(buffer.data, buffer.dtype, buffer.shape, ops.TRUE, declaration)

    return ScopeFrame(make, lambda name: make_buffer(name, **options))


def alloc_local(shape: Any, dtype: Any = "float32", **options: Any) -> ScopeFrame:
    """Allocate a buffer of the scope "local" for the rest of a body."""
    return decl_buffer(shape, dtype, scope="local", **options)


def allocate(
    extents: Sequence[Any],
    dtype: Any,
    scope: str = "global",
    condition: Any = None,
    annotations: dict[str, Any] | None = None,
) -> ScopeFrame:
    """Allocate memory behind a pointer."""
    dims = [as_expr(n) for n in extents]
    holds = ops.TRUE if condition is None else as_expr(condition)
    kept = attributes(annotations)

    def make(var: Var, body: Stmt) -> Stmt:
        return Allocate(var, dtype_text(dtype), dims, holds, body, kept)

    return ScopeFrame(make, lambda name: Var(name, pointer(dtype, scope)))


def allocate_const(
    data: Any, dtype: str, extents: Sequence[Any], annotations: dict[str, Any] | None = None
) -> ScopeFrame:
    """Allocate constant memory with the given elements."""
    dims = [as_expr(n) for n in extents]
    sizes = [int(n) for n in dims]  # type: ignore[call-overload]
    array = array_of_elements(data, dtype).reshape(sizes)
    kept = attributes(annotations)

    def make(var: Var, body: Stmt) -> Stmt:
        return AllocateConst(var, dtype, dims, array, body, kept)

    return ScopeFrame(make, lambda name: Var(name, pointer(dtype, "global")))


def pointer(dtype: Any, scope: str = "global") -> PointerType:
    """Return the type of a pointer to elements of `dtype`."""
    return PointerType(PrimType(dtype_text(dtype)), scope)


# ------------------------------------------------------------------------------------------- types


class DtypeForm:
    """`T.float32`: a type in an annotation, a cast if it is called with a value.

    `x: T.float32[4]` is memory for four values.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = DataType(dtype)
        self.__name__ = dtype
        self.__doc__ = f"Convert to {dtype}; without a value, declare a variable of it."

    def __call__(self, value: Any = None, *, is_size_var: bool = False) -> Any:
        """Convert a value, or return a new variable."""
        if value is None:
            return self.in_script(is_size_var=is_size_var).build("v")
        if isinstance(value, str) and self.dtype.is_floating:
            return const(float(value), self.dtype)
        if isinstance(value, (int, float)):
            return const(value, self.dtype)
        return ops.cast(self.dtype, value)

    def in_script(self, value: Any = None, *, is_size_var: bool = False) -> Any:
        """Convert a value, or return a variable that gets its name from the assignment."""
        return FreshVar(self.dtype, is_size_var) if value is None else self(value)

    def __getitem__(self, shape: Any) -> ScopeFrame:
        return alloc_local(shape, self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.__name__}"


class HandleForm:
    """`T.handle("float32", "global")` and the older `T.Ptr[T.float32]`: a pointer variable."""

    def __call__(
        self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> Var:
        """Return a pointer variable; without a dtype it is opaque."""
        result: Var = self.in_script(dtype, storage_scope, is_size_var=is_size_var).build("v")
        return result

    def in_script(
        self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> FreshVar:
        """Return a pointer variable that gets its name from the assignment."""
        del is_size_var
        return FreshVar("handle" if dtype is None else pointer(dtype, storage_scope))

    def __getitem__(self, key: Any) -> FreshVar:
        return self.in_script(*key) if isinstance(key, tuple) else self.in_script(key)

    def __repr__(self) -> str:
        return "T.handle"


def dtype_text(dtype: Any) -> str:
    """Return the dtype of `"float32"` or `T.float32`. Raises IRTypeError for other values."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, DtypeForm):
        return dtype.dtype
    if isinstance(dtype, (type, np.dtype)):
        return np.dtype(dtype).name
    raise IRTypeError(f'a dtype must be "float32" or T.float32, not {dtype!r}')


def fresh_var(annotation: Any, name: str) -> Var:
    """Return a variable of an annotated type. Raises IRTypeError for another annotation."""
    if isinstance(annotation, (DtypeForm, HandleForm)):
        annotation = annotation.in_script()
    if isinstance(annotation, Var):
        annotation = FreshVar(annotation.type_annotation or annotation.dtype)
    if isinstance(annotation, BufferFactory):
        raise IRTypeError('a buffer needs a shape and a dtype: T.Buffer((n, m), "float32")')
    if not isinstance(annotation, FreshVar):
        raise IRTypeError(
            f"Annotation should be Var: a type such as T.int32 or T.handle, not {annotation!r}"
        )
    return annotation.build(name)  # type: ignore[no-any-return]


def declare_sizes(scope: Scope, names: Sequence[str]) -> None:
    """Define the sizes that newer releases declare as type variables of a function."""
    fresh = {name: size for name, size in scope.levels[0].items() if isinstance(size, FreshVar)}
    for name, size in fresh.items():
        scope.define(name, size.build(name))
    for name in names:
        scope.define(name, Var(name, INT64))


def type_of(annotation: Any) -> Type:
    """Return the annotated type of a result. Raises IRTypeError for another annotation."""
    if annotation is None:
        return TupleType()
    if isinstance(annotation, TupleType):
        return annotation
    var = fresh_var(annotation, "result")
    return var.type_annotation or PrimType(var.dtype)


def tuple_type(*types: Any) -> TupleType:
    """Return the type of several results."""
    return TupleType([type_of(part) for part in types])
