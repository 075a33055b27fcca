"""The meaning of graph functions: a slow reference over NumPy arrays.

It accepts graph functions in every form, from calls that return values to explicit memory. A tensor
is represented by an array, a tuple by a tuple, a shape by a tuple of ints, a scalar by a Python
number, a string or dtype by a str. Memory starts as a pattern, which exposes reads before writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.interp.arguments import bind_arguments
from tensorir.interp.expressions import ExpressionCompiler
from tensorir.interp.memory import InterpreterError, fresh
from tensorir.interp.statements import FunctionCompiler, Functions
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import GlobalVar, PrimExpr, StringImm, Var
from tensorir.recursion import run_as_deep_as
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.rewriting.visit import collect_vars

Library = Mapping[str, Callable[..., Any]]
"""Library functions by name; they receive copies of the tensors that they read."""


def interpret_graph(
    mod: IRModule, name: str, *args: Any, library: Library | None = None, max_depth: int = 200
) -> Any:
    """Return the value of a graph function for arrays, scalars, and tuples of them.

    Arguments are not changed, but the result may be one of them. Raises IRTypeError or
    IRValueError, which name function and parameter, for arguments that do not fit; InterpreterError
    for a missing library function, a failed match_cast, and endless recursion.
    """
    graph = _Graph(mod, library or {}, max_depth)
    return run_as_deep_as(mod.functions, graph.call, name, args)


class _Frame:
    """Values of variables and of symbolic sizes in one call of a graph function."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.values: Final[dict[g.GraphVar, Any]] = {}
        self.sizes: Final[dict[Var, Any]] = {}

    def number(self, node: PrimExpr) -> Any:
        """Return the value of a size or scalar."""
        if isinstance(node, StringImm):
            return node.value
        return ExpressionCompiler(set()).expr(node)(self.sizes)

    def shape(self, sizes: Sequence[PrimExpr]) -> tuple[int, ...]:
        """Return a shape as numbers."""
        return tuple(int(self.number(n)) for n in sizes)

    def match(self, info: si.StructInfo, value: Any, what: str) -> None:
        """Check a value against its stated struct info, which defines new sizes."""
        for define in (True, False):
            self._match(info, value, what, define)

    def _match(self, info: si.StructInfo, value: Any, what: str, define: bool) -> None:
        if isinstance(info, si.TensorStructInfo):
            if not isinstance(value, np.ndarray):
                raise IRTypeError(f"{what} must be an array, got {type(value).__name__}")
            if info.dtype is not None and info.dtype.to_numpy() != value.dtype:
                raise IRTypeError(f"{what} has dtype {value.dtype}, expected {info.dtype}")
            if info.ndim not in (-1, value.ndim):
                raise IRValueError(f"{what} has {value.ndim} dimension(s), expected {info.ndim}")
            self._equate(info.shape, value.shape, what, define)
        elif isinstance(info, si.ShapeStructInfo):
            self._equate(info.values, tuple(value), what, define)
        elif isinstance(info, si.PrimStructInfo):
            self._equate(None if info.value is None else (info.value,), (value,), what, define)
        elif isinstance(info, si.TupleStructInfo):
            if not isinstance(value, tuple) or len(value) != len(info):
                raise IRTypeError(f"{what} must be a tuple of {len(info)}")
            for k, (part, field) in enumerate(zip(info.elements, value, strict=True)):
                self._match(part, field, f"field {k} of {what}", define)

    def _equate(
        self, wanted: Sequence[PrimExpr] | None, actual: tuple[Any, ...], what: str, define: bool
    ) -> None:
        if wanted is None:
            return
        if len(wanted) != len(actual):
            raise IRValueError(f"{what} has {len(actual)} dimension(s), expected {len(wanted)}")
        for k, (size, value) in enumerate(zip(wanted, actual, strict=True)):
            if define and isinstance(size, Var):
                self.sizes.setdefault(size, value)
            elif not define:
                unknown = [v.name for v in collect_vars(size) if v not in self.sizes]
                if unknown:
                    raise IRValueError(f"no argument determines {', '.join(unknown)} in {what}")
                if self.number(size) != value:
                    raise IRValueError(
                        f"{what} has extent {value} in dimension {k}, expected {self.number(size)}"
                    )


class _Graph:
    def __init__(self, mod: IRModule, library: Library, max_depth: int) -> None:
        self._mod = mod
        self._library = library
        self._kernels = Functions(mod)
        self._layouts: dict[PrimFunc, FunctionCompiler] = {}
        self._calls: list[str] = []
        self._max_depth = max_depth

    def call(self, name: str, args: Sequence[Any]) -> Any:
        """Return the result of a graph function of the module."""
        func = self._mod[name]
        if not isinstance(func, Function):
            raise IRTypeError(f"{name} is not a graph function")
        if len(args) != len(func.params):
            raise IRTypeError(f"{name} takes {len(func.params)} argument(s), got {len(args)}")
        if len(self._calls) == self._max_depth:
            chain = " -> ".join([*self._calls[-3:], name])
            raise InterpreterError(f"the calls are nested {self._max_depth} deep: ... {chain}")
        frame = _Frame(name)
        for define in (True, False):
            for param, arg in zip(func.params, args, strict=True):
                frame._match(param.struct_info, arg, f"argument {param.name} of {name}", define)
                frame.values[param] = arg
        self._calls.append(name)
        try:
            return self._sequence(func.body, frame)
        finally:
            self._calls.pop()

    def _sequence(self, node: g.SeqExpr, frame: _Frame) -> Any:
        for binding in node.bindings:
            value = self._value(binding.value, frame)
            if isinstance(binding, g.MatchCast):
                frame.match(binding.struct_info, value, f"{binding.var.name} of {frame.name}")
            frame.values[binding.var] = value
        return self._value(node.body, frame)

    def _value(self, node: Any, frame: _Frame) -> Any:
        if isinstance(node, g.GraphVar):
            return frame.values[node]
        if isinstance(node, g.Constant):
            return node.data
        if isinstance(node, g.Tuple):
            return tuple(self._value(part, frame) for part in node.elements)
        if isinstance(node, g.TupleGetItem):
            return self._value(node.tuple_value, frame)[node.index]
        if isinstance(node, g.ShapeExpr):
            return frame.shape(node.values)
        if isinstance(node, g.PrimValue):
            return frame.number(node.value)
        if isinstance(node, (g.StringValue, g.DataTypeValue)):
            return node.value
        if isinstance(node, (GlobalVar, g.ExternFunc)):
            return node
        if isinstance(node, g.If):
            taken = bool(self._value(node.cond, frame))
            return self._sequence(node.true_branch if taken else node.false_branch, frame)
        if isinstance(node, g.GraphCall):
            return self._call(node, frame)
        raise InterpreterError(f"a graph function cannot have {type(node).__name__} as a value")

    def _call(self, node: g.GraphCall, frame: _Frame) -> Any:
        parts = calls.destination_passing(node)
        if parts is not None:
            return self._destination_passing(parts, frame)
        args = [self._value(arg, frame) for arg in node.args]
        if node.op is calls.CALL_GRAPH_INTO:
            self._call_into(*args)
            return ()
        callee = self._value(node.op, frame) if isinstance(node.op, g.GraphVar) else node.op
        if isinstance(callee, Operator):
            memory = _MEMORY.get(callee)
            if memory is not None:
                return memory(*args)
            if callee is calls.CALL_PURE_PACKED:
                return self._library_call(args[0].symbol, args[1:], 0)
            return self._library_call(callee.name, args, 0)
        if isinstance(callee, g.ExternFunc):
            return self._library_call(callee.symbol, args, calls.written_last(node))
        if isinstance(self._mod[callee], PrimFunc):
            return self._kernel(callee.name, args)
        return self.call(callee.name, args)

    def _call_into(self, callee: GlobalVar, args: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Call a graph function and copy its result to outputs."""
        results = _leaves(self.call(callee.name, args))
        if len(results) != len(outputs):
            raise InterpreterError(
                f"{callee.name} returns {len(results)} tensors, the call has {len(outputs)} outputs"
            )
        for result, output in zip(results, outputs, strict=True):
            output[...] = result

    def _destination_passing(self, call: calls.DestinationPassing, frame: _Frame) -> Any:
        args = [self._value(arg, frame) for arg in call.args]
        outputs = []
        for info, k in zip(call.outputs, call.inplace, strict=True):
            if k == calls.FRESH:
                assert info.shape is not None
                assert info.dtype is not None
                outputs.append(empty_tensor(frame.shape(info.shape), info.dtype))
            else:
                args[k] = args[k].copy()
                outputs.append(args[k])
        own = [out for out, k in zip(outputs, call.inplace, strict=True) if k == calls.FRESH]
        if isinstance(call.callee, GlobalVar):
            self._kernel(call.callee.name, [*args, *own, *map(frame.number, call.scalars)])
        else:
            self._library_call(call.callee.symbol, [*args, *own], len(own))
        return tuple(outputs) if call.gives_tuple else outputs[0]

    def _kernel(self, name: str, args: Sequence[Any]) -> None:
        func = self._mod[name]
        if not isinstance(func, PrimFunc):
            raise IRTypeError(f"{name} is called as a tensor function, but it is not one")
        layout = self._layouts.get(func)
        if layout is None:
            layout = self._layouts[func] = FunctionCompiler(func, self._kernels)
        try:
            env = bind_arguments(func, tuple(args), lambda node, env: layout.expr(node)(env))
            with np.errstate(all="ignore"):
                self._kernels.run(func, env)
        except Exception as error:
            error.add_note(f"in the tensor function {name}, called by {self._calls[-1]}")
            raise

    def _library_call(self, name: str, args: Sequence[Any], written: int) -> Any:
        """Call a library function that may write to its last `written` arguments."""
        function = self._library.get(name)
        if function is None:
            raise InterpreterError(
                f"{self._calls[-1]} calls {name}, but the library has {sorted(self._library)}"
            )
        kept = len(args) - written
        args = [self._nested_call(arg.name) if isinstance(arg, GlobalVar) else arg for arg in args]
        return function(*[_copied(arg) for arg in args[:kept]], *args[kept:])

    def _nested_call(self, name: str) -> Callable[..., Any]:
        return lambda *args: self.call(name, args)


def empty_tensor(shape: tuple[int, ...], dtype: DataType) -> NDArray[Any]:
    """Return a tensor of unwritten elements, filled with a pattern."""
    return fresh(math.prod(shape), dtype).cells.reshape(shape)


def _leaves(value: Any) -> list[Any]:
    """Return the leaves of a value, in order."""
    return (
        [leaf for part in value for leaf in _leaves(part)] if isinstance(value, tuple) else [value]
    )


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def _storage(shape: tuple[int, ...], *_: Any) -> NDArray[Any]:
    return np.full(shape, 255, np.uint8)


def _place(
    storage: NDArray[Any], offset: int, shape: tuple[int, ...], dtype: DataType
) -> NDArray[Any]:
    kind = dtype.to_numpy()
    end = offset + math.prod(shape) * kind.itemsize
    if end > storage.size:
        raise InterpreterError(
            f"a tensor ends at byte {end}, but its storage has {storage.size} bytes"
        )
    return storage[offset:end].view(kind).reshape(shape)


def _allocate(shape: tuple[int, ...], dtype: DataType, *_: Any) -> NDArray[Any]:
    return empty_tensor(shape, dtype)


def _copy(source: NDArray[Any], destination: NDArray[Any]) -> tuple[()]:
    destination[...] = source
    return ()


def _view(tensor: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if math.prod(shape) != tensor.size:
        raise IRValueError(f"a view of shape {shape} cannot have {tensor.size} elements")
    return tensor.reshape(shape)


_MEMORY: Final[dict[Operator, Callable[..., Any]]] = {
    calls.ALLOC_TENSOR: _allocate,
    calls.ALLOC_STORAGE: _storage,
    calls.PLACE_TENSOR: _place,
    calls.COPY_INTO: _copy,
    calls.VIEW: _view,
}
