"""The tasks of a model: equal functions once, and how often they run."""

import numpy as np
import pytest

import search as ms
import tensorir
from search.errors import TuningError
from tensorir import IRModule, IRTypeError, transform
from tests.search.models.network_programs import (
    DENSE,
    RELU,
    TARGET,
    layers,
    module_of,
    symbolic_model,
)


def weights(tasks: list[ms.ExtractedTask]) -> dict[str, float]:
    return {task.task_name: task.weight for task in tasks}


def test_functions_count_through_calls_and_in_both_branches() -> None:
    """`layer` runs twice, and once in a branch; `again` is `dense`; nothing calls `never`."""
    tasks = ms.extract_tasks(layers(), TARGET)
    assert weights(tasks) == {"dense": 3 + 1 + 1, "relu": 3}
    dense = tasks[0]
    assert dense.names == ["dense", "again"]
    assert list(dense.mod.functions) == ["main"]
    assert dense.dispatched == [dense.mod]
    assert str(dense.target) == str(ms.TuneContext(dense.mod, target=TARGET).target)
    assert str(dense) == "dense x 5"


def test_a_module_without_a_graph_has_each_function_once() -> None:
    kernels = IRModule(layers().prim_funcs())
    assert weights(ms.extract_tasks(kernels, TARGET)) == {"dense": 2, "relu": 2}


def test_what_is_scheduled_is_no_task() -> None:
    mod = layers()
    mod["relu"] = mod["relu"].with_attr("tir.is_scheduled", True)
    assert weights(ms.extract_tasks(mod, TARGET)) == {"dense": 5}


def test_a_loop_runs_once() -> None:
    mod = module_of(
        RELU.format(name="relu", n=16),
        """
    @R.function
    def main(x: M16, c: R.Tensor((), "bool")) -> M16:
        cls = Module
        a = R.call_tir(cls.relu, (x,), out_sinfo=M16)
        if c:
            b: M16 = cls.main(a, c)
            r: M16 = b
        else:
            r: M16 = a
        return r
""",
    )
    assert weights(ms.extract_tasks(mod, TARGET)) == {"relu": 1}


def test_constants_may_have_any_layout_as_in_the_build() -> None:
    mod = module_of(
        DENSE.format(name="dense", n=16),
        """
    @R.function
    def main(x: M16, w: M16) -> M16:
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.dense, (x, w), out_sinfo=M16)
            R.output(a)
        return a
""",
    )
    bound = transform.BindParams("main", {"w": np.ones((16, 16), "float32")})(mod)
    (task,) = ms.extract_tasks(bound, TARGET)
    assert list(map(int, task.mod["main"].attrs["layout_free_buffers"])) == [1]
    (task,) = ms.extract_tasks(mod, TARGET)
    assert "layout_free_buffers" not in task.mod["main"].attrs


def test_longer_programs_are_served_by_the_shortest_on_request() -> None:
    kernels = IRModule(
        {
            name: tensorir.parse(f"@I.ir_module\nclass Module:\n{DENSE.format(name=name, n=n)}")[
                name
            ]
            for name, n in (("four", 64), ("one", 16), ("two", 32), ("odd", 24))
        }
    )
    assert len(ms.extract_tasks(kernels, TARGET)) == 4
    tasks = ms.extract_tasks(kernels, TARGET, include_compatible=True)
    assert weights(tasks) == {"one": 1 + 2 + 4, "odd": 1}
    assert tasks[0].names == ["one", "four", "two"]
    assert len(tasks[0].dispatched) == 3


def test_tasks_are_those_of_a_module() -> None:
    with pytest.raises(
        IRTypeError, match="mod is an IRModule or a function, got str; import a model"
    ):
        ms.extract_tasks("model.onnx", TARGET)  # type: ignore[arg-type]


def test_sizes_may_be_given() -> None:
    tasks = ms.extract_tasks(symbolic_model(), TARGET, sizes={"n": [16, 64]})
    assert list(weights(tasks)) == ["dense_n_16", "dense_n_64", "relu_n_16", "relu_n_64"]
    with pytest.raises(TuningError, match="sizes names 'm', which is no symbolic size"):
        ms.extract_tasks(symbolic_model(), TARGET, sizes={"m": [16, 64]})
