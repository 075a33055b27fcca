"""Binding of arrays to parameters: weights become constants of the program."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError, noting
from tensorir.function import IRModule
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.relax.callee import Parameter, fit
from tensorir.relax.expr import Constant, GraphVar
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.relations import is_base_of
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter, SizeSubstitution
from tensorir.rewriting.visit import collect_vars
from tensorir.transform.pass_context import ModulePass, PassContext


class BindParams(ModulePass):
    """Binds arrays to parameters of one graph function.

    Before: def main(x: R.Tensor((1, "n")), w: R.Tensor(("n", 4))):  lv = R.call_tir(f, (x, w), ...)
    After {"w": zeros((8, 4))}:  def main(x: R.Tensor((1, 8))):  lv = R.call_tir(f, (x, C), ...)

    `params` maps names or variables of parameters to arrays of NumPy, or to objects with
    `__dlpack__` on the CPU or `__array__`. A contiguous array is not copied, so it must not be
    changed as long as the module is used. Other parameters are kept. Raises the errors of
    `bind_params`, and IRValueError if the module lacks the graph function.
    """

    def __init__(self, func_name: str, params: Mapping[str | GraphVar, Any]) -> None:
        if not isinstance(params, Mapping):
            raise IRTypeError(
                f"params must map names of parameters to arrays, got {type(params).__name__}; "
                'write {"w": array}'
            )
        self.func_name = func_name
        self.params = dict(params)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with the parameters of the function bound."""
        name = self._key_of_function(mod)
        func = mod[name]
        assert isinstance(func, Function)
        result = mod.clone()
        with noting(f"in the function {name}"):
            result[name] = bind_params(func, self.params)
        return result

    def _key_of_function(self, mod: IRModule) -> str:
        """Return the key of the function: its public name is preferred."""
        functions = graph_functions(mod)
        for name, func in functions.items():
            if func.attrs.get("global_symbol") == self.func_name:
                return name
        if self.func_name in functions:
            return self.func_name
        if self.func_name in mod:
            raise IRTypeError(f"{self.func_name} is a tensor function; expected a graph function")
        raise IRValueError(
            f"unknown graph function {self.func_name}; the module has {sorted(functions)}"
        )


def bind_params(func: Function, params: Mapping[str | GraphVar, Any]) -> Function:
    """Return a function with parameters replaced by arrays.

    The function itself if `params` is empty. Symbolic sizes that the arrays determine are replaced
    everywhere. Raises IRValueError for an unknown or ambiguous name, a parameter that is named
    twice, and a size that the arrays do not determine; IRTypeError for a shape or dtype that does
    not fit (as in a call), a value that is not an array, and a parameter that is not a tensor.
    """
    bound: dict[GraphVar, Constant] = {}
    for key, value in params.items():
        param = _parameter(func, key)
        if param in bound:
            raise IRValueError(
                f"the parameter {param.name} is given twice, by its name and by its variable"
            )
        if param in func.updates or param not in func.arguments:
            raise IRValueError(
                f"the parameter {param.name} changes from call to call, so it cannot be bound"
            )
        bound[param] = _constant(param, value)
    if not bound:
        return func
    sizes = _sizes(func, bound)
    if sizes:
        # Sizes are replaced first, so that an array agrees with other tensors of its shape.
        sized = SizeSubstitution(sizes)(func)
        pairs = zip(func.params, sized.params, strict=True)
        bound = {new: bound[old] for old, new in pairs if old in bound}
        func = sized
    rewriter = GraphRewriter()
    rewriter.replaced.update(bound)
    return func.with_(
        params=[param for param in func.params if param not in bound],
        body=rewriter(func.body),
        attrs=_with_input_count(func, bound),
    )


def _parameter(func: Function, key: str | GraphVar) -> GraphVar:
    names = [param.name for param in func.params]
    if isinstance(key, GraphVar):
        if key in func.params:
            return key
        raise IRValueError(
            f"the variable {key.name} is not a parameter of this function; it has {names}"
        )
    found = [param for param in func.params if param.name == key]
    if len(found) == 1:
        return found[0]
    if found:
        raise IRValueError(f"{len(found)} parameters are called {key}; use the variable as key")
    close = difflib.get_close_matches(str(key), names, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise IRValueError(f"unknown parameter {key}; {hint}the function has {names}")


def _constant(param: GraphVar, value: Any) -> Constant:
    info = param.struct_info
    if not isinstance(info, TensorStructInfo):
        raise IRTypeError(f"the parameter {param.name} is {info}, but only a tensor can be bound")
    if isinstance(value, Constant):
        return value
    array, dtype = _array(param, value), info.dtype
    if dtype is None or array.dtype == dtype.to_numpy():
        return Constant(array, dtype)
    if array.dtype.name == dtype:  # the dtype is defined by another package
        return Constant(array.view(dtype.to_numpy()), dtype)
    return Constant(array)


def _array(param: GraphVar, value: Any) -> NDArray[Any]:
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            if not hasattr(value, "__array__"):
                raise IRTypeError(
                    f"the array for the parameter {param.name} cannot be read on the CPU: {error}"
                ) from error
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise IRTypeError(
        f"the parameter {param.name} is bound to an array, got {type(value).__name__}; "
        "make one by numpy.array(value, dtype)"
    )


def _sizes(func: Function, bound: Mapping[GraphVar, Constant]) -> dict[Var, PrimExpr]:
    """Return the values of symbolic sizes that follow from the shapes of arrays."""
    name = str(func.attrs.get("global_symbol", "the function"))
    sizes = fit(
        name,
        [Parameter(param.name, param.struct_info) for param in bound],
        [Parameter("the array", constant.struct_info) for constant in bound.values()],
    )
    for param, constant in bound.items():
        if not is_base_of(sizes.filled(param.struct_info), constant.struct_info):
            unknown = [v.name for v in collect_vars(param.struct_info) if v not in sizes.values]
            raise IRValueError(
                f"the parameter {param.name} is {param.struct_info}, which leaves the value of "
                f"{', '.join(unknown)} open; bind a parameter with {unknown[0]} as a dimension"
            )
    return sizes.values


def _with_input_count(func: Function, bound: Mapping[GraphVar, Constant]) -> Mapping[str, Any]:
    """Return attributes with `num_input` counting the remaining inputs."""
    if "num_input" not in func.attrs:
        return func.attrs
    return {**func.attrs, "num_input": sum(param not in bound for param in func.inputs)}
