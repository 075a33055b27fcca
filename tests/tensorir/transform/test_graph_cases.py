"""Transforms of graphs: each text file has the graphs before and after a pass.

The tensor functions are those of `graph_modules`. `F4` is `R.Tensor((4,), "float32")`, and
`alloc_tensor(F4)` allocates one. Whatever a pass makes of a graph, its results stay.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from graph_modules import is_same, module_of
from text_cases import TextCase, each_case

from benchmarks.fuzz.graphs import random_arguments
from tensorir import IRModule, transform, verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.transform.kernel_runner import interpreted

W = np.arange(4, dtype="float32")
BOUND = ("fold_constant", "layout_free_buffers")
"""Files in which the parameter w is the constant W unless the inputs are numbered."""
SHORT = {
    'R.Tensor((4,), dtype="float32")': "F4",
    'R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))':
        "alloc_tensor(F4)",
    ', R.shape([4]), R.dtype("float32"))': ", F4)",
    ', R.prim_value(0), R.str("global"), R.dtype("uint8"))': ")",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold constants by the interpreter, whose kernels are not compiled."""
    monkeypatch.setattr("tensorir.transform.kernel_runner._runner", lambda: interpreted)


def changes(before: IRModule, after: IRModule) -> str:
    """Return the functions of a module that another one does not have, and the names it lost.

    The statements of tensor functions are left out.
    """
    text = re.sub(r'( *)# with T.block\("root"\):\n(\1.*\n?|\n(?=\1))*', r"\1...\n", after.script())
    for long, short in SHORT.items():
        text = text.replace(long, short)
    _, *functions = re.split(r"\n\n?(?=    @)", text)
    changed = [
        re.sub("^    ", "", part.strip("\n"), flags=re.MULTILINE)
        for part, name in ((part, re.findall(r"def (\w+)", part)[0]) for part in functions)
        if name not in before or before[name] is not after[name]
    ]
    lost = sorted(set(before) - set(after))
    return "\n\n".join([*changed, *([f"without {', '.join(lost)}"] if lost else [])]) or "the same"


def leaves(value: object) -> list[object]:
    return [x for part in value for x in leaves(part)] if isinstance(value, tuple) else [value]


def assert_same_results(before: IRModule, after: IRModule, apart: bool) -> None:
    """Compare results; `apart` if those of `after` are in memory of their own."""
    for seed in range(3):
        args = random_arguments(before["main"], np.random.default_rng(seed))  # type: ignore[arg-type]
        kept = [np.copy(x) for x in args]
        given = args
        if "main_transform_params" in after:
            count = int(before["main"].attrs["num_input"])
            weights = interpret_graph(after, "main_transform_params", tuple(args[count:]))
            given = [*args[:count], *weights]
        expected = leaves(interpret_graph(before, "main", *args))
        found = leaves(interpret_graph(after, "main", *given))
        for old, new in zip([*kept, *expected], [*args, *found], strict=True):
            np.testing.assert_array_equal(old, new)
        for k, result in enumerate(found if apart else ()):
            assert not any(np.shares_memory(result, other) for other in [*args, *found[:k]])


@each_case(Path(__file__).parent / "graphs")
def test_graphs(case: TextCase, pytestconfig: pytest.Config) -> None:
    before = module_of(case.before)
    if case.path.stem in BOUND and "num_input" not in case.before and "w: F4" in case.before:
        before = transform.BindParams("main", {"w": W})(before)
    before = transform.LegalizeOps()(before)
    kept = before.clone()
    step = eval(case.call, vars(transform))
    after = step(before)
    case.check(changes(before, after), pytestconfig)
    assert is_same(before, kept)
    verify_well_formed(after)
    if "main_transform_params" not in after:
        assert is_same(step(after), after)
    if not is_same(before, after) and not re.search("packed|None|ndim|match_cast", case.before):
        assert_same_results(before, after, "CallTIRRewrite" in case.call)
