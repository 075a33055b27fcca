"""Exported programs that change inputs and buffers, with branches and loops."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models of torch need the extra `torch`")

from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import codegen
from tensorir import IRValueError, transform
from tensorir.interp.graphs import interpret_graph
from tests.exported import built, check, compare, imported

X = torch.arange(8.0).reshape(2, 4)


def follow(module: nn.Module, calls: Sequence[Sequence[Any]]) -> codegen.VirtualMachine:
    """Compare a model that changes itself and its inputs with torch, call by call."""
    vm = built(imported(copy.deepcopy(module), copy.deepcopy(calls[0])))
    for inputs in calls:
        own = copy.deepcopy(inputs)
        compare(vm["main"](*own), module(*inputs), 1e-5, 1e-5)
        for mine, theirs in zip(own, inputs, strict=True):
            torch.testing.assert_close(mine, theirs)
    state = vm.function("main").state
    for name, buffer in module.named_buffers():
        np.testing.assert_allclose(state[f"b_{name}"], buffer.numpy(), rtol=1e-5)
    return vm


# ------------------------------------------------------------------------------------------ state


class Cache(nn.Module):
    """Rows that are written at positions, and read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 64, 128))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.rows[:, at] = x
        self.rows[:, 3:5] = x[:, :1] * 2
        self.count += 1
        return self.rows.sum(1) + self.count


CALLS = [(torch.rand(2, 2, 128), torch.tensor(at)) for at in ([3, 4], [60, 61], [7, 6])]


def test_buffers_are_kept_from_call_to_call() -> None:
    vm = follow(Cache(), CALLS)
    main = vm.function("main")
    assert "NDArray" in repr(main.state["b_count"])
    assert main.state["b_count"] == 3
    main.state["b_count"][...] = 9
    vm["main"](*CALLS[0])
    assert main.state["b_count"] == 10
    main.reset_state()
    assert not main.state["b_count"]
    assert not main.state["b_rows"].any()


def test_a_cache_is_written_where_it_is() -> None:
    """Only the changed rows are written: kernels update the array of the state."""
    mod = built(imported(Cache(), CALLS[0])).executable.mod
    text = mod["main"].script()
    assert "index_put_inplace" in text
    assert "slice_scatter_inplace" in text
    (copied,) = [line for line in text.splitlines() if "copy_into" in line]
    assert "b_count" in copied
    for name in ("index_put_inplace", "slice_scatter_inplace"):
        assert "_copy" not in mod[name].script()


def test_state_is_of_a_machine_and_travels_with_the_executable(tmp_path: Path) -> None:
    executable = built(imported(Cache(), CALLS[0])).executable
    executable.export_library(tmp_path / "cache.so")
    sources = (
        executable,
        pickle.loads(pickle.dumps(executable)),
        codegen.load_module(tmp_path / "cache.so"),
    )
    for source in sources:
        vm = codegen.VirtualMachine(source)
        for k in range(2):
            vm["main"](*CALLS[k])
        assert vm.function("main").state["b_count"] == 2


def test_functions_may_share_state() -> None:
    executable = built(imported(Cache(), CALLS[0])).executable
    first, second = (codegen.VirtualMachine(executable).function("main") for _ in range(2))
    second.state.update(first.state)
    first(*CALLS[0])
    second(*CALLS[1])
    assert first.state["b_count"] == 2


def test_state_is_no_argument() -> None:
    vm = built(imported(Cache(), CALLS[0]))
    with pytest.raises(Exception, match=r"main takes 2 argument\(s\) \(x, at\), got 1"):
        vm["main"](X)
    by_name = vm["main"](x=CALLS[0][0], at=CALLS[0][1])
    assert by_name.shape == (2, 128)
    assert vm.profile("main", *CALLS[0]).rows
    assert vm.time_evaluator("main", number=1)(*CALLS[0]).mean > 0


def test_state_cannot_be_bound() -> None:
    with pytest.raises(IRValueError, match="the parameter b_rows changes from call to call"):
        transform.BindParams("main", {"b_rows": np.zeros((2, 64, 128), "float32")})(
            imported(Cache(), CALLS[0])
        )


def test_statistics_of_training_are_state() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean.mul_(0.9).add_(0.1 * x.mean(0))
            return x - self.mean

    follow(Net(), [(X,), (X + 1,)])


# --------------------------------------------------------------------------------- changed inputs


def test_changed_inputs_are_written() -> None:
    class Net(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
            before = a.clone()
            a.copy_(b)
            b.copy_(before)
            b[1] += c[0]
            c.add_(1)
            return a + c, before

    follow(Net(), [(X.clone(), X + 1, X + 2)])


def test_the_value_of_a_graph_is_its_result_and_the_new_contents() -> None:
    class Net(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            a += 1
            return a * 2

    mod = imported(Net(), (X.clone(),))
    result, (contents,) = interpret_graph(transform.LegalizeOps()(mod), "main", X.numpy())
    np.testing.assert_array_equal(result, (X + 1) * 2)
    np.testing.assert_array_equal(contents, X + 1)


def test_an_input_that_cannot_be_written_is_refused() -> None:
    class Net(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            a += 1
            return a * 2

    main = built(imported(Net(), (X.clone(),)))["main"]
    with pytest.raises(IRValueError, match="'a': the function writes to it"):
        main(torch.ones(4, 2).T)


def test_inputs_of_symbolic_sizes_are_written() -> None:
    class Net(nn.Module):
        def forward(self, cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]
            cache[: x.shape[0]] = x
            return cache[:n].sum(0)

    cache = torch.zeros(32, 256)
    dynamic = {"cache": None, "x": {0: Dim("n", max=32)}}
    vm = built(imported(Net(), (cache.clone(), torch.rand(5, 256)), dynamic))
    for n in (3, 32):
        x, own = torch.rand(n, 256), cache.clone()
        compare(vm["main"](own, x), Net()(cache, x), 1e-5, 1e-5)
        assert torch.equal(own, cache)


# ------------------------------------------------------------------------------ branches and loops


def test_branches() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            def inner(a: torch.Tensor, b: torch.Tensor) -> Any:
                return torch.cond(
                    a[0, 0] > 3, lambda a: a + 1, lambda a: a - 1, (a,)
                ), a @ b.transpose(0, 1)

            a, b = torch.cond(
                x.sum() > 0, inner, lambda a, b: (a * 2, b @ a.transpose(0, 1)), (x, y)
            )
            return a * 2, b

    check(Net(), (X, X + 1), (X + 5, X), (-X, X))


def test_branches_by_a_size() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.shape[0] > 4, lambda x: x * 2, lambda x: x - 1, (x,))

    check(Net(), (X,), (torch.rand(6, 4),), dynamic={"x": {0: Dim("n")}})


class Loop(nn.Module):
    """A loop over tensors with weights, and values from around it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> Any:
        def smaller(k: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return k < n

        def step(k: torch.Tensor, y: torch.Tensor) -> Any:
            return k + 1, torch.tanh(self.linear(y)) + x

        return while_loop(smaller, step, (torch.tensor(0), x * 2))


def test_loops() -> None:
    inputs = (torch.tensor(3), X)
    check(Loop(), inputs, (torch.tensor(0), X), (torch.tensor(1), X))


def test_loops_of_symbolic_sizes() -> None:
    dynamic = {"n": None, "x": {0: Dim("rows")}}
    check(Loop(), (torch.tensor(3), X), (torch.tensor(2), torch.rand(5, 4)), dynamic=dynamic)


def test_loops_over_numbers() -> None:
    class Net(nn.Module):
        def forward(self, n: torch.Tensor, x: torch.Tensor) -> Any:
            def smaller(k: int, y: torch.Tensor) -> torch.Tensor:
                return k < n

            return while_loop(smaller, lambda k, y: (k + 2, y * k), (1, x))[1]

    check(Net(), (torch.tensor(6), X), (torch.tensor(0), X))


def test_unsupported_operators_of_branches_are_in_the_error() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.digamma, lambda x: x.clone(), (x,))

    with pytest.raises(IRValueError, match=r"not supported:\n  aten.digamma.default: 1"):
        imported(Net(), (X,))
