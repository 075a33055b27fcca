"""Functions and modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.dtype import HANDLE, DataType
from tensorir.nodes.expr import Call, GlobalVar, PrimExpr, PrimType, TupleType, Type, Var, smart
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Attrs, Node, body, definitions, value
from tensorir.nodes.stmt import BufferStore, Evaluate, Stmt, normalize_annotations
from tensorir.rewriting.visit import pre_order_visit

VOID_TYPE = TupleType()
_RET: Final = Op.get("ret")


class BaseFunc(Node):
    """A function of a module.

    `attrs` are its attributes, `fields` the names of its constructor arguments.
    """

    __slots__ = ("attrs",)
    attrs: Attrs

    @property
    def __name__(self) -> str:
        """The `global_symbol`; `main` for a private function."""
        return str(self.attrs.get("global_symbol", "main"))

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> Self:
        """Return a function with one attribute (or all of a mapping) set."""
        added = {key: value} if isinstance(key, str) else dict(key)
        return self.with_(attrs={**self.attrs, **added})

    def with_attrs(self, attrs: Mapping[str, Any]) -> Self:
        """Return a function with all attributes of a mapping set."""
        return self.with_attr(attrs)

    def without_attr(self, key: str) -> Self:
        """Return a function without the attribute `key`."""
        return self.with_(attrs=self.attrs.without(key))


class PrimFunc(BaseFunc):
    """A function over buffers and scalars.

    `params` are variables in call order, `buffer_map` maps handles among them to buffers. Standard
    attributes: `global_symbol` (absent for a private function), `tir.noalias`, `target`,
    `layout_free_buffers`, `tir.no_contraction` (every product and sum of floats is rounded).
    """

    fields = (definitions("params"), value("buffer_map"), "ret_type", body("body"), value("attrs"))
    __slots__ = fields[:-1]

    def __init__(
        self,
        params: Sequence[Var | Buffer],
        body: Stmt,
        ret_type: Type | None = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """Build a function; a `Buffer` among `params` is replaced by a handle bound to it.

        The default of `ret_type` is the type of the values that the body returns. Raises
        IRTypeError if it returns values of several types.
        """
        bound = dict(buffer_map or {})
        names: list[Var] = []
        for param in params:
            if isinstance(param, Buffer):
                handle = Var(param.name, HANDLE)
                bound[handle] = param
                names.append(handle)
            elif isinstance(param, Var):
                names.append(param)
            else:
                raise IRTypeError(
                    f"a parameter must be a Var or a Buffer, got {type(param).__name__}: {param!r}"
                )
        self.params = tuple(names)
        self.body = body
        self.ret_type = ret_type if ret_type is not None else returned_type(body)
        self.buffer_map = bound
        self.attrs = normalize_annotations(attrs)

    def with_body(self, body: Stmt) -> PrimFunc:
        """Return a function with another body; the function itself if `body` is its own body."""
        if body is self.body:
            return self
        # Every schedule primitive calls this method; collecting the fields by name would take twice
        # as long.
        return PrimFunc(self.params, body, self.ret_type, self.buffer_map, self.attrs)

    def specialize(self, values: Mapping[Var, PrimExpr | int | Buffer]) -> PrimFunc:
        """Return a function with symbolic parameters or shapes fixed.

        A key is a parameter, or a variable in the layout of a buffer parameter. The value is a
        scalar, the address for a pointer, or a buffer: it replaces the parameter's buffer, and its
        layout determines the variables there. Scalars and pointers with a value are removed from
        the parameters of the result. Raises IRValueError for other keys and for layouts that
        differ. Raises IRTypeError for types that differ.
        """
        return smart["specialize"](self, values)  # type: ignore[no-any-return]


def returned_type(body: Stmt) -> Type:
    """Return the type of the values that statements return; `void` without a return.

    Raises IRTypeError for values of several types.
    """
    found: dict[DataType, Type] = {}

    def visit(node: Node) -> bool:
        if isinstance(node, Evaluate) and isinstance(node.value, Call):
            call = node.value
            if call.op is _RET:
                found.setdefault(call.dtype, PrimType(call.dtype))
        return not isinstance(node, (PrimExpr, BufferRegion, BufferStore))

    pre_order_visit(body, visit)
    if len(found) > 1:
        raise IRTypeError(
            f"a function must return values of one type, but this one returns {sorted(found)}"
        )
    return next(iter(found.values()), VOID_TYPE)


class IRModule(Node):
    """Functions by name; `mod["main"]`, `mod["f"] = func`.

    A module can be changed in place, unlike nodes; functions of this package copy it first.
    """

    fields = ("functions", "attrs")
    __slots__ = fields

    def __init__(
        self,
        functions: Mapping[str, BaseFunc] | Mapping[GlobalVar, BaseFunc] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.functions: dict[str, BaseFunc] = {}
        self.attrs: Attrs = normalize_annotations(attrs)
        for name, func in (functions or {}).items():
            self[name] = func

    @staticmethod
    def from_expr(func: BaseFunc) -> IRModule:
        """Return the module of one function, named by its `global_symbol`, else `main`."""
        return IRModule({func.__name__: func})

    def __getitem__(self, name: str | GlobalVar) -> BaseFunc:
        key = _function_name(name)
        if key not in self.functions:
            raise IRValueError(
                f'Cannot find global var "{key}" in the Module; it has {sorted(self.functions)}'
            )
        return self.functions[key]

    def __setitem__(self, name: str | GlobalVar, func: BaseFunc) -> None:
        if not isinstance(func, BaseFunc):
            raise IRTypeError(f"a module holds functions, got {type(func).__name__}")
        self.functions[_function_name(name)] = func

    def __delitem__(self, name: str | GlobalVar) -> None:
        self[name]  # raises for an unknown name
        del self.functions[_function_name(name)]

    def __contains__(self, name: str | GlobalVar) -> bool:
        return _function_name(name) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the global variable of a function. Raises IRValueError if the module lacks it."""
        self[name]  # raises for an unknown name
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """Return the names of all functions, sorted."""
        return [GlobalVar(name) for name in sorted(self.functions)]

    def functions_items(self) -> list[tuple[str, BaseFunc]]:
        """Return pairs of a name and a function, sorted by name."""
        return sorted(self.functions.items())

    def prim_funcs(self) -> dict[str, PrimFunc]:
        """Return the tensor functions by name."""
        return {n: f for n, f in self.functions.items() if isinstance(f, PrimFunc)}

    def graph_funcs(self) -> dict[str, BaseFunc]:
        """Return the functions other than tensor functions by name."""
        return {n: f for n, f in self.functions.items() if not isinstance(f, PrimFunc)}

    def prim_func(self, name: str | GlobalVar) -> PrimFunc:
        """Return a tensor function.

        Raises IRValueError for an unknown name. Raises IRTypeError for a graph function.
        """
        func = self[name]
        if not isinstance(func, PrimFunc):
            raise IRTypeError(
                f'function "{_function_name(name)}" is a graph function; the tensor functions of '
                f"the module are {sorted(self.prim_funcs())}"
            )
        return func

    def update_func(self, name: str | GlobalVar, func: BaseFunc) -> None:
        """Replace or add a function."""
        self[name] = func

    def update(self, other: IRModule | Mapping[str, BaseFunc]) -> None:
        """Replace or add all functions of `other`."""
        functions = other.functions if isinstance(other, IRModule) else other
        for name, func in functions.items():
            self[name] = func

    def clone(self) -> IRModule:
        """Return a module with the same functions."""
        return IRModule(self.functions, self.attrs)

    def with_attr(self, key: str, value: Any) -> IRModule:
        """Return a module with one attribute set."""
        return IRModule(self.functions, {**self.attrs, key: value})

    def with_attrs(self, attrs: Mapping[str, Any]) -> IRModule:
        """Return a module with all attributes of a mapping set."""
        return IRModule(self.functions, {**self.attrs, **attrs})

    def without_attr(self, key: str) -> IRModule:
        """Return a module without the attribute `key`."""
        return IRModule(self.functions, self.attrs.without(key))


def _function_name(name: str | GlobalVar) -> str:
    if isinstance(name, GlobalVar):
        return name.name
    if not isinstance(name, str):
        raise IRTypeError(
            f"the name of a function must be a str or GlobalVar, got {type(name).__name__}"
        )
    return name
