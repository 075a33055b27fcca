"""A slow machine for lowered functions: flat memory, scalars and vectors, checked accesses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import expr as e
from tensorir import stmt as s
from tensorir.function import PrimFunc

_BINARY = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Div: lambda a, b: a / b,
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Min: np.minimum,
    e.Max: np.maximum,
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}
_CALLS = {
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "isnan": np.isnan,
    "fabs": np.abs,
    "likely": lambda x: x,
}


def run_flat(func: PrimFunc, *args: Any) -> None:
    """Run a lowered function on arrays in C order; outputs are written in place."""
    env: dict[e.Var, Any] = {}
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            env[param] = arg
            continue
        for extent, size in zip(buffer.shape, arg.shape, strict=True):
            if isinstance(extent, e.Var):
                env[extent] = size
        for stride, step in zip(buffer.strides, arg.strides, strict=False):
            if isinstance(stride, e.Var):
                env[stride] = step // arg.itemsize
        if isinstance(buffer.elem_offset, e.Var):
            env[buffer.elem_offset] = 0
        env[buffer.data] = _memory_of(arg)
    with np.errstate(all="ignore"):
        _run(func.body, env)


def _memory_of(array: Any) -> Any:
    flat = array.reshape(-1)
    return flat if np.shares_memory(flat, array) else array.base.reshape(-1)


def _run(node: s.Stmt, env: dict[e.Var, Any]) -> None:
    match node:
        case s.SeqStmt():
            for part in node.seq:
                _run(part, env)
        case s.For():
            assert node.kind not in (s.ForKind.VECTORIZED, s.ForKind.THREAD_BINDING)
            low, extent = int(_value(node.min, env)), int(_value(node.extent, env))
            for number in range(low, low + extent):
                env[node.loop_var] = number
                _run(node.body, env)
        case s.IfThenElse():
            if _value(node.condition, env):
                _run(node.then_case, env)
            elif node.else_case is not None:
                _run(node.else_case, env)
        case s.LetStmt():
            env[node.var] = _value(node.value, env)
            _run(node.body, env)
        case s.While():
            while _value(node.condition, env):
                _run(node.body, env)
        case s.AssertStmt():
            assert _value(node.condition, env), node.message
            _run(node.body, env)
        case s.AttrStmt():
            _run(node.body, env)
        case s.Allocate():
            size = int(np.prod([_value(n, env) for n in node.extents]))
            kind = node.dtype.to_numpy()
            env[node.buffer_var] = np.full(size, np.nan if node.dtype.is_float else 77, kind)
            _run(node.body, env)
        case s.Evaluate():
            _value(node.value, env)
        case s.BufferStore():
            value = _value(node.value, env)
            memory, index, lanes = _place(node, env)
            if lanes is None:
                memory[index] = value
            elif lanes.any():
                memory[index[lanes]] = np.broadcast_to(value, lanes.shape)[lanes]
        case _:
            raise AssertionError(f"{type(node).__name__} is no lowered statement")


def _place(node: Any, env: dict[e.Var, Any]) -> tuple[Any, Any, Any]:
    (expr,) = node.indices
    memory, index = env[node.buffer.data], _value(expr, env)
    lanes = None
    if node.predicate is not None:
        lanes = np.atleast_1d(_value(node.predicate, env)).astype(bool)
        index = np.atleast_1d(index)
    used = index if lanes is None else index[lanes]
    low, high = np.min(used, initial=0), np.max(used, initial=0)
    name = node.buffer.name
    assert low >= 0, f"{name}[{expr}]: index {low}"
    assert high < len(memory), f"{name}[{expr}]: index {high} of {len(memory)}"
    return memory, index, lanes


def _load(node: e.BufferLoad, env: dict[e.Var, Any]) -> Any:
    memory, index, lanes = _place(node, env)
    if lanes is None:
        return memory[index]
    result = np.zeros(lanes.shape, memory.dtype)
    result[lanes] = memory[index[lanes]]
    return result


def _value(node: e.PrimExpr, env: dict[e.Var, Any]) -> Any:
    kind = type(node)
    if isinstance(node, e.Var):
        return env[node]
    if kind is e.IntImm:
        return node.value
    if kind is e.FloatImm:
        return node.dtype.to_numpy().type(node.value)
    if kind in _BINARY:
        return _BINARY[kind](_value(node.a, env), _value(node.b, env))
    if kind is e.BufferLoad:
        return _load(node, env)
    if kind is e.Ramp:
        base, stride = _value(node.base, env), _value(node.stride, env)
        return base + stride * np.arange(node.lanes)
    if kind is e.Broadcast:
        return np.repeat(_value(node.value, env), node.lanes)
    if kind is e.Cast:
        return np.asarray(_value(node.value, env)).astype(node.dtype.element.to_numpy())[()]
    if kind is e.Not:
        return np.logical_not(_value(node.a, env))
    if kind is e.Select:
        parts = (node.condition, node.true_value, node.false_value)
        return np.where(*(_value(part, env) for part in parts))
    if kind is e.Let:
        env[node.var] = _value(node.value, env)
        return _value(node.body, env)
    if kind is e.Call:
        name = node.op.short_name
        if name == "if_then_else":
            return _value(node.args[1 if _value(node.args[0], env) else 2], env)
        return _CALLS[name](*(_value(arg, env) for arg in node.args))
    raise AssertionError(f"{kind.__name__} is no lowered expression")
