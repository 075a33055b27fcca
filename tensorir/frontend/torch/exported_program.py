"""Exported programs of torch as modules with one graph function, `main`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind, OutputKind

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.torch.graph_import import (
    GraphImport,
    Signature,
    constant_of,
    operator_names,
)
from tensorir.frontend.torch.table import TABLE, unsupported
from tensorir.function import IRModule
from tensorir.relax.expr import Constant

__all__ = ["from_exported_program"]


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
) -> IRModule:
    """Return the module of a `torch.export.ExportedProgram`, with the graph function `main`.

    Parameters of `main` are the inputs of the model, in order, as flat tensors. A model that
    returns a single tensor becomes a function that returns a tensor; any other result is a flat
    tuple of tensors. `unwrap_unit_return_tuple` returns the only element of a tuple of one;
    `no_bind_return_tuple` returns a tuple without binding it to a variable first.

    Weights, buffers and constants are read when the module is built: do not change them between the
    import and the end of the build; later changes do not affect the module. With
    `keep_params_as_input`, weights are parameters after the inputs: the attribute `num_input` of
    `main` is the number of inputs, and its attribute `params` has the weights as constants.

    Inputs that the model changes are changed in the arrays of the caller (the attribute `updates`
    of `main`). Buffers that the model changes are parameters after the weights (the attribute
    `state`). Callers do not pass these: the compiled function keeps them from call to call.

    Dynamic dimensions are symbolic sizes. The constraints that the export found (equal sizes,
    multiples of a number, ranges) are checked when the function is called. (As in torch, a minimum
    of 2 also accepts 0 and 1.)

    Operators without a converter are decomposed by torch's default table. Raises IRTypeError for
    another argument, and for unsupported dtypes and arguments of operators. Raises IRValueError for
    operators without a converter (all of them in one error).
    """
    if not isinstance(exported_program, torch.export.ExportedProgram):
        raise IRTypeError(
            f"expected a torch.export.ExportedProgram, got {type(exported_program).__name__}; "
            "call torch.export.export(model.eval(), arguments)"
        )
    program = _decompose(exported_program)
    signature = _signature(program, keep_params_as_input)
    return GraphImport(program.graph_module, signature).module(
        program.range_constraints,
        unwrap=unwrap_unit_return_tuple or program.call_spec.out_spec.is_leaf(),
        unbound=no_bind_return_tuple,
    )


def _decompose(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Decompose the operators without a converter; return `program` itself if it has none.

    Other operators are kept, because an undivided operator gets a better kernel. Three constructs
    have no converter on purpose, so a decomposition removes them: operators that change their
    operands become functional ones, regions of autocast become casts, and calls of `torch.vmap`
    become operators on whole batches.
    """
    error = unsupported(operator_names(program.graph_module))
    if error is not None:
        table = torch.export.default_decompositions()
        for overload in list(table):
            if str(overload) in TABLE:
                table.pop(overload)
        try:
            program = program.run_decompositions(table)
        except RuntimeError as problem:  # the result of torch.func.grad cannot be decomposed
            raise error from problem
    error = unsupported(operator_names(program.graph_module))
    if error is not None:
        raise error
    return program


_UPDATES: Final = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


def _signature(program: torch.export.ExportedProgram, keep_params: bool) -> Signature:
    """Return the roles of a program's inputs and outputs."""
    inputs, outputs = program.graph_signature.input_specs, program.graph_signature.output_specs
    others = [
        f"{spec.arg.name} ({spec.kind.name.lower()})"
        for spec in outputs
        if spec.kind not in (*_UPDATES, OutputKind.USER_OUTPUT)
    ]
    if others:
        raise IRValueError(
            f"the program has outputs for training, {', '.join(others)}; export the model without "
            "a loss"
        )
    holders = [n for n in program.graph.nodes if n.op == "placeholder"]
    places = {spec.target: k for k, spec in enumerate(outputs) if spec.kind in _UPDATES}
    constants: dict[torch.fx.Node, Constant] = {}
    weights: dict[torch.fx.Node, Constant] = {}
    state: dict[torch.fx.Node, Constant] = {}
    updates: dict[torch.fx.Node, int] = {}
    for node, spec in zip(holders, inputs, strict=True):
        is_input = spec.kind is InputKind.USER_INPUT
        target = node.name if is_input else spec.target
        if target in places:
            updates[node] = places[target]
        if is_input:
            continue
        role = constants
        if node in updates:
            role = state
        elif spec.kind is InputKind.PARAMETER and keep_params:
            role = weights
        role[node] = _stored_tensor(program, spec)
    return Signature(constants, weights, state, updates)


def _stored_tensor(program: torch.export.ExportedProgram, spec: Any) -> Constant:
    """Return a weight, a buffer or a constant of a program."""
    places: Sequence[Any] = (program.state_dict, program.constants)
    for place in places:
        if spec.target in place and isinstance(place[spec.target], torch.Tensor):
            return constant_of(place[spec.target], spec.target)
    raise IRTypeError(
        f"the input {spec.arg.name} of the program is a {spec.kind.name.lower()} "
        f"({spec.target}), and only tensors are supported"
    )
