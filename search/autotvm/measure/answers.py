"""The right results of a program, given by a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from search.arg_info import ArgInfo, entry_name
from search.autotvm.errors import TemplateError
from search.runner.argument_values import argument_values
from search.runner.arguments import Fill, as_numbers, random_arrays
from search.runner.check_results import Expected, Reference
from tensorir.function import IRModule
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import walk


def write_answers(
    path: Path, mod: IRModule, ref_func: Callable[..., Any], rtol: float, atol: float
) -> None:
    """Write what a program has to compute of random arguments to a file, for a runner to check.

    `ref_func` gets the arguments that the program only reads, and returns what it writes: an array,
    or a tuple of several. Elements may be off by `atol` plus `rtol` times their size.
    TemplateError for answers of another number or shape.
    """
    func = mod.prim_func(entry_name(mod))
    stored = {node.buffer for node in walk(func.body) if isinstance(node, BufferStore)}
    written = [k for k, param in enumerate(func.params) if func.buffer_map.get(param) in stored]
    infos = ArgInfo.from_prim_func(func)
    fill = Fill(signed=True, values=argument_values(func))
    arrays = random_arrays(infos, 0, fill)
    read = [
        as_numbers(array, info.dtype)
        for k, (array, info) in enumerate(zip(arrays, infos, strict=True))
        if k not in written
    ]
    answers = ref_func(*read)
    if not isinstance(answers, tuple):
        answers = (answers,)
    shapes = [np.shape(answer) for answer in answers]
    wanted = [infos[k].shape for k in written]
    if shapes != wanted:
        raise TemplateError(
            f"ref_func returned arrays of the shapes {shapes}; the program writes {wanted}"
        )
    expected = {}
    for k, answer in zip(written, answers, strict=True):
        values = np.asarray(answer)
        expected[k] = Expected(values, atol + rtol * np.abs(values.astype(np.float64)))
    Reference(infos, fill, expected).save(path)
