"""Calls checked against their functions: arguments, type of the result, purity.

A call refers to a function by name only, so the builder, the parser and the verifier check calls
here. The call determines symbolic sizes of the called function: if a parameter of shape `(n, 4)`
receives an array of shape `(m + 1, 4)`, then `n` is `m + 1`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import Cast, GlobalVar, PrimExpr, Var
from tensorir.nodes.ops import cast
from tensorir.relax import struct_info as si
from tensorir.relax.calls import (
    CALL_GRAPH_INTO,
    CALL_TIR,
    CALL_TIR_INPLACE,
    FRESH,
    called_graph,
    destination_passing,
    written_last,
)
from tensorir.relax.expr import GraphCall, GraphExpr, GraphVar, ShapeExpr, Tuple
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.relations import Fits, fits, known_by
from tensorir.relax.visit import SizeSubstitution
from tensorir.rewriting.visit import collect_vars, walk

Functions: TypeAlias = "IRModule | Mapping[str, BaseFunc | si.FuncStructInfo]"
"""Functions by name; a function under construction is represented by its struct info."""


def result_of(call: GraphCall, functions: Functions) -> si.StructInfo:
    """Return the struct info of a call's result; check that the arguments fit the function.

    Raises IRValueError for an unknown name and a wrong number of arguments, IRTypeError for a
    function of the wrong kind and arguments that do not fit. An argument is accepted if only a
    check at run time can decide whether it fits.
    """
    op = call.op
    if isinstance(op, Operator):
        if op is CALL_TIR or op is CALL_TIR_INPLACE:
            check_call_tir(call, _tensor_function(call, functions))
        elif op is CALL_GRAPH_INTO:
            _check_call_into(call, functions)
        else:
            _check_function_arguments(call, functions)
        return op.infer(call.args, call.attrs, call.sinfo_args)  # type: ignore[arg-type]
    if isinstance(op, GlobalVar):
        return _result_of_named(call, op.name, _function_named(op, functions))
    if isinstance(op, GraphVar):
        known = op.struct_info
        if isinstance(known, si.FuncStructInfo):
            result = _result_of_named(call, op.name, known)
            return call.sinfo_args[0] if call.sinfo_args else result
    written_last(call)  # raises if the call is invalid
    _check_function_arguments(call, functions)
    return call.sinfo_args[0] if call.sinfo_args else call.struct_info


def check_call_tir(call: GraphCall, callee: PrimFunc) -> None:
    """Check that a `call_tir` or `call_tir_inplace` fits its tensor function.

    The parameters of the function are, in order: the arguments, the outputs that do not overwrite
    arguments, the integers `tir_vars`. Raises IRValueError for a wrong number of arguments,
    IRTypeError for arguments that do not fit.
    """
    name, *rest = call.args
    assert isinstance(name, GlobalVar)
    if not rest or not isinstance(rest[0], Tuple):
        raise IRTypeError(
            f'the arguments of "{name.name}" must be a tuple expression: R.call_tir({name.name}, '
            "(x, y), out_sinfo=...)"
        )
    if len(rest) > 1 and not isinstance(rest[1], ShapeExpr):
        raise IRTypeError(f'tir_vars of "{name.name}" are integers: tir_vars=R.shape([n, m])')
    parts = destination_passing(call)
    assert parts is not None
    inputs, outputs, inplace, extra = parts.args, parts.outputs, parts.inplace, parts.scalars
    given = _arguments(inputs)
    for k, info in enumerate(outputs):
        if inplace[k] == FRESH:
            given.append(Parameter(f"output {k}" if len(outputs) > 1 else "the output", info))
    passed_outputs = len(given) - len(inputs)
    given += [
        Parameter(f"tir_vars[{k}]", si.PrimStructInfo(value)) for k, value in enumerate(extra)
    ]
    expected = signature(callee)
    if len(expected) != len(given):
        names = ", ".join(p.name for p in expected)
        raise IRValueError(
            f'"{name.name}" takes {len(expected)} parameter(s) ({names}), the call passes '
            f"{len(given)}: {len(inputs)} argument(s), {passed_outputs} output(s) and {len(extra)} "
            "of tir_vars; parameters are matched in this order"
        )
    fit(name.name, expected, given)
    for k, j in enumerate(inplace):
        if j == FRESH:
            continue
        if fits(inputs[j].struct_info, outputs[k]) is Fits.NO:
            raise IRTypeError(
                f'output {k} of "{name.name}" overwrites argument {j}, but is {outputs[k]} and '
                f"not {inputs[j].struct_info}; state the struct info of the argument in out_sinfo, "
                "or -1 in inplace_indices for new memory"
            )


def _check_call_into(call: GraphCall, functions: Functions) -> None:
    """Check the call of a graph function into memory: its arguments and its output tensors."""
    parts = called_graph(call)
    assert parts is not None
    assert parts.outputs is not None
    name, callee = parts.callee.name, _function_named(parts.callee, functions)
    if isinstance(callee, PrimFunc):
        raise IRTypeError(f'"{name}" is a tensor function, not a graph function')
    as_value = GraphCall(parts.callee, parts.args)
    results = si.leaves(_result_of_named(as_value, name, callee))
    if len(results) != len(parts.outputs):
        raise IRValueError(
            f'"{name}" returns {len(results)} tensor(s), the call has {len(parts.outputs)}'
        )
    for k, (info, output) in enumerate(zip(results, parts.outputs, strict=True)):
        if fits(output.struct_info, info) is Fits.NO:
            raise IRTypeError(f'result {k} of "{name}" is {info}, its output {output.struct_info}')


def is_pure_call(call: GraphCall, functions: Functions, entered: set[str] | None = None) -> bool:
    """Return True if a call has no effects, so that it may be dropped, repeated or moved.

    A graph function is pure if it is declared so and all functions that it calls are pure;
    functions in `entered` count as pure, because their check is in progress. A library function may
    call the graph functions in its arguments.
    """
    op, entered = call.op, set() if entered is None else entered
    if op not in (CALL_TIR, CALL_TIR_INPLACE):
        given = (arg for arg in call.args if isinstance(arg, GlobalVar))
        if not all(
            is_pure_call(GraphCall(f, (), struct_info=si.OBJECT), functions, entered) for f in given
        ):
            return False
    if isinstance(op, Operator):
        return op.pure
    known: BaseFunc | si.StructInfo = si.VOID
    if not isinstance(op, GlobalVar):
        known = op.struct_info
    elif op.name in functions:
        known = functions[op.name]
    if not isinstance(known, Function) or not isinstance(op, GlobalVar):
        return isinstance(known, si.FuncStructInfo) and known.purity
    if op.name in entered:
        return True
    entered.add(op.name)
    return known.is_pure and all(
        is_pure_call(inner, functions, entered)
        for inner in walk(known.body)
        if isinstance(inner, GraphCall)
    )


@dataclass(frozen=True)
class Parameter:
    """A parameter or an argument: its name in messages, and its struct info."""

    name: str
    info: si.StructInfo


def signature(func: BaseFunc) -> list[Parameter]:
    """Return the parameters of a function; extents of tensor functions as int64 expressions."""
    if isinstance(func, Function):
        return [Parameter(param.name, param.struct_info) for param in func.params]
    assert isinstance(func, PrimFunc)
    result = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            result.append(Parameter(param.name, si.PrimStructInfo(param)))
        else:
            shape = [cast(INT64, extent) for extent in buffer.shape]
            result.append(Parameter(buffer.name, si.TensorStructInfo(shape, buffer.dtype)))
    return result


# ------------------------------------------------------------------------------------- the callee


def _function_named(gvar: GlobalVar, functions: Functions) -> BaseFunc | si.FuncStructInfo:
    if gvar.name not in functions:
        close = difflib.get_close_matches(gvar.name, list(functions), 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise IRValueError(
            f'the module has no function "{gvar.name}"; it has {sorted(functions)}' + hint
        )
    return functions[gvar.name]


def _tensor_function(call: GraphCall, functions: Functions) -> PrimFunc:
    assert isinstance(call.op, Operator)
    gvar = call.args[0]
    if not isinstance(gvar, GlobalVar):
        raise IRTypeError(
            f"{call.op.short_name} calls a tensor function of the module by its name; "
            "call a library function by call_dps_packed"
        )
    func = _function_named(gvar, functions)
    if not isinstance(func, PrimFunc):
        raise IRTypeError(
            f'{call.op.short_name} calls a tensor function, "{gvar.name}" is a graph function; '
            f"call it directly: {gvar.name}(...)"
        )
    return func


def _check_function_arguments(call: GraphCall, functions: Functions) -> None:
    """Raise IRTypeError if a function argument of a library function is not a graph function."""
    for arg in call.args:
        if not isinstance(arg, GlobalVar):
            continue
        func = _function_named(arg, functions)
        if not isinstance(func, (Function, si.FuncStructInfo)):
            raise IRTypeError(
                f'"{arg.name}" is a tensor function, and a library function takes graph '
                "functions; write a graph function that calls it by R.call_tir"
            )


def _result_of_named(
    call: GraphCall, name: str, callee: BaseFunc | si.FuncStructInfo
) -> si.StructInfo:
    """Return the struct info of the result of a direct call."""
    if isinstance(callee, si.FuncStructInfo):
        if callee.params is None:
            return callee.ret
        expected = [Parameter(str(k), info) for k, info in enumerate(callee.params)]
        ret = callee.ret
    else:
        expected = signature(callee)
        ret = callee.ret_struct_info if isinstance(callee, Function) else si.VOID
    values = [value for value in call.args if isinstance(value, GraphExpr)]
    if len(values) != len(expected):
        names = ", ".join(p.name for p in expected)
        raise IRValueError(
            f'"{name}" takes {len(expected)} argument(s) ({names}), the call passes {len(values)}'
            + _call_tir_hint(callee, name)
        )
    given = _arguments(values)
    return fit(name, expected, given).known(ret)


def _call_tir_hint(callee: BaseFunc | si.FuncStructInfo, name: str) -> str:
    if not isinstance(callee, PrimFunc):
        return ""
    return f"; R.call_tir({name}, (...), out_sinfo=...) allocates the outputs of a tensor function"


def _arguments(values: Sequence[GraphExpr]) -> list[Parameter]:
    """Return the arguments of a call, named by position and variable."""
    named = [f", {v.name}," if isinstance(v, GraphVar) else "" for v in values]
    return [
        Parameter(f"argument {k}{named[k]}", value.struct_info) for k, value in enumerate(values)
    ]


# ----------------------------------------------------------------------------------- symbolic sizes


def fit(name: str, expected: Sequence[Parameter], given: Sequence[Parameter]) -> Sizes:
    """Return the symbolic sizes of a call; IRTypeError for an argument that does not fit."""
    sizes = Sizes()
    values = [_convert_value(p.info, v.info) for p, v in zip(expected, given, strict=True)]
    for parameter, value in zip(expected, values, strict=True):
        sizes.define(parameter.info, value, parameter.name)
    for parameter, value, source in zip(expected, values, given, strict=True):
        if fits(sizes.filled(parameter.info), value, sizes.analyzer) is Fits.NO:
            raise IRTypeError(
                f'parameter {parameter.name} of "{name}" is {parameter.info}'
                + sizes.notes_on(parameter.info, parameter.name)
                + f", but {source.name} is {value}; {_remedy(parameter.info, value)}"
            )
    return sizes


def _convert_value(parameter: si.StructInfo, value: si.StructInfo) -> si.StructInfo:
    """Return the value of a parameter: integers are converted to the parameter's type."""
    if not isinstance(parameter, si.PrimStructInfo) or not isinstance(value, si.PrimStructInfo):
        return value
    if not (parameter.dtype.is_int and value.dtype.is_int):
        return value
    return si.PrimStructInfo(
        parameter.dtype, None if value.value is None else cast(parameter.dtype, value.value)
    )


def _remedy(parameter: si.StructInfo, value: si.StructInfo) -> str:
    if isinstance(parameter, si.PrimStructInfo):
        return "pass a scalar parameter by tir_vars"
    if isinstance(value, si.TensorStructInfo) and isinstance(parameter, si.TensorStructInfo):
        if None not in (value.dtype, parameter.dtype) and value.dtype != parameter.dtype:
            return "convert the array, or declare the function for this dtype"
        return "change the array, or declare the function for this shape"
    return "pass a value of the declared type"


class Sizes:
    """The values of the variables in the parameters of a function in one call."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.values: dict[Var, PrimExpr] = {}
        self._source: dict[Var, str] = {}

    def define(self, pattern: si.StructInfo, value: si.StructInfo, source: str) -> None:
        """Define the variables in a parameter's dimensions by the dimensions of the value."""
        if isinstance(pattern, si.TupleStructInfo) and isinstance(value, si.TupleStructInfo):
            for p, v in zip(pattern.elements, value.elements, strict=False):
                self.define(p, v, source)
            return
        extents = zip(si.defining_extents(pattern), si.defining_extents(value), strict=False)
        for extent, actual in extents:
            var = extent.value if isinstance(extent, Cast) else extent
            if isinstance(var, Var) and var not in self.values:
                self.values[var] = cast(var.dtype, actual)
                self._source[var] = source

    def filled(self, info: si.StructInfo) -> si.StructInfo:
        """Return a struct info of the function with the determined variables replaced."""
        return SizeSubstitution(self.values)(info)

    def known(self, info: si.StructInfo) -> si.StructInfo:
        """Return a result's struct info for the caller, without variables of the callee."""
        return self.filled(known_by(info, self.values))

    def notes_on(self, info: si.StructInfo, parameter: str) -> str:
        """Return a note on the sizes that other parameters determined."""
        notes = [
            f"{var.name} = {self.values[var]} by {self._source[var]}"
            for var in collect_vars(info)
            if self._source.get(var, parameter) != parameter
        ]
        return f" (with {', '.join(notes)})" if notes else ""
