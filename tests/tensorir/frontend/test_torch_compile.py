"""`torch.compile(model, backend="tensorir")`: results as in torch, aliases, sizes, weights, refusals."""

from __future__ import annotations

import copy
import logging
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="models of torch need the extra `torch`")

from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F

from codegen import torch_backend
from codegen.history import KnownSchedules
from codegen.target import Target
from codegen.torch_backend import compile_graph
from tensorir.function import PrimFunc
from tests.exported import TARGET

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _inference() -> Any:
    torch.compiler.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The modules that are built."""
    made: list[Any] = []
    build = torch_backend.vm_build

    def recorded(mod: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(mod)
        return build(mod, *args, **kwargs)

    monkeypatch.setattr(torch_backend, "vm_build", recorded)
    return made


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(
        model,
        backend=compile_graph,
        options={"target": TARGET, **options.pop("options", {})},
        **options,
    )


def agree(result: Any, expected: Any) -> None:
    """Compare tensors with torch's, strides included."""
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(
        *(torch.utils._pytree.tree_leaves(v) for v in (result, expected)), strict=True
    ):
        if isinstance(one, torch.Tensor):
            assert one.stride() == other.stride()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.inner, self.last = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        z = self.inner(y.flatten(2).transpose(1, 2))
        return self.last(F.scaled_dot_product_attention(z, z, z)).softmax(-1)


def test_the_entry_point_is_the_function() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"]["torch_dynamo_backends"].items()
    assert name == "tensorir"
    assert EntryPoint(name, value, "torch_dynamo_backends").load() is compile_graph


def test_pooling_to_one_element_of_a_channels_last_tensor() -> None:
    class Head(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), 1)

    x = torch.rand(2, 5, 6, 3)
    torch.testing.assert_close(compiled(Head())(x), Head()(x))


def test_a_model_gives_the_results_of_torch(builds: list[Any]) -> None:
    net = Net().eval()
    fast = compiled(net)
    for _ in range(2):
        x = torch.rand(2, 3, 8, 8)
        agree(fast(x), net(x))
    (mod,) = builds
    assert len(mod["main"].params) == 1  # weights are constants


def test_sizes_are_symbolic(builds: list[Any]) -> None:
    net = Net().eval()
    fast = compiled(net)
    for n in (2, 3, 5, 9):
        x = torch.rand(n, 3, 8, 8)
        agree(fast(x), net(x))
    assert len(builds) == 2


def test_numbers_change() -> None:
    fast, x = compiled(lambda x, factor: x * factor), torch.rand(3)
    for factor in (0.5, 0.25, 2.0):
        agree(fast(x, factor), x * factor)


def test_a_graph_breaks_where_torch_breaks_it(builds: list[Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) + 1
        if y.sum().item() > 6:
            return y * 2
        return y - 1

    for x in (torch.ones(4), -torch.ones(4)):
        agree(compiled(function)(x), function(x))
    assert len(builds) > 1


def test_memory_formats_are_kept() -> None:
    def function(x: torch.Tensor) -> Any:
        return (
            x * 2,
            x.permute(2, 3, 0, 1) + 1,
            F.conv2d(x, x[:1]),
            x[:, 1:, ::2] + 1,
            x.mean((2, 3)),
        )

    for x in (
        torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        torch.rand(4, 4, 3, 2).T,
    ):
        agree(compiled(function)(x), function(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int32, torch.bool])
def test_dtypes(dtype: torch.dtype) -> None:
    weight = torch.tensor([[1, 0], [1, 1]]).to(dtype)

    def function(x: torch.Tensor) -> Any:
        return x * weight, x[0]

    x = torch.tensor([[1, 1], [0, 1]]).to(dtype)
    agree(compiled(function)(x), function(x))


@pytest.mark.parametrize("directions", [1, 2])
@torch._dynamo.config.patch(allow_rnn=True)
def test_recurrent_layers(directions: int) -> None:
    """torch captures these layers with `allow_rnn` only."""
    net = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=directions == 2).eval()
    fast = compiled(net)
    for steps in (5, 5, 3):
        x = torch.rand(2, steps, 6)
        torch.testing.assert_close(fast(x), net(x), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------------------- aliases


def test_results_are_inputs_or_views_of_them_as_in_torch() -> None:
    def function(x: torch.Tensor) -> Any:
        return x, x[1:], x.T, x + 1

    x = torch.rand(3, 4)
    same, rows, turned, more = compiled(function)(x)
    x.fill_(7)
    for view in (same, rows, turned):
        assert bool((view == 7).all())
    assert not bool((more == 8).any())


def test_views_of_inputs_have_their_offsets_and_strides() -> None:
    def function(x: torch.Tensor) -> Any:
        return x[x.shape[0] // 2 :], x.expand(2, *x.shape), x.sum(0)

    fast = compiled(function, dynamic=True)
    for x in (torch.rand(5, 3), torch.rand(8, 6)[::2, ::2]):
        half, twice, total = fast(x)
        agree((half, twice, total), function(x))
        x.fill_(7)
        assert bool((half == 7).all())
        assert bool((twice == 7).all())
        assert not bool((total == 7).any())


def test_views_of_a_result_are_views_of_it() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        return y[1:].T, y, y.view(-1), y

    x = torch.rand(3, 4)
    results = compiled(function)(x)
    agree(results, function(x))
    results[1].fill_(7)
    for view in results:
        assert bool((view == 7).all())


def test_a_graph_of_views_only() -> None:
    x = torch.rand(3, 4)
    agree(compiled(lambda x: x.T)(x), x.T)


def test_a_result_is_not_overwritten_by_the_next_call() -> None:
    fast = compiled(lambda x: (x * 2, x.sum()))
    first, total = fast(torch.ones(64, 64))
    fast(torch.zeros(64, 64))
    assert bool((first == 2).all())
    assert total == 64 * 64


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 64, 128))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.rows[:, at] = x
        x += 1
        return self.rows.sum(1)


def test_inputs_and_buffers_are_changed_in_place() -> None:
    net = Cached()
    other = copy.deepcopy(net)
    fast, rows = compiled(net), net.rows
    for k in range(3):
        x = torch.rand(2, 1, 128) if k else torch.rand(1, 128, 2).permute(2, 0, 1)
        y = x.clone()
        agree(fast(x, torch.tensor([k])), other(y, torch.tensor([k])))
        torch.testing.assert_close(x, y)
        assert net.rows is rows
        assert torch.equal(rows, other.rows)


def test_inputs_that_overlap_are_changed() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.mul_(2)
        return x + y

    memory = torch.rand(5, 4)
    other = memory.clone()
    agree(compiled(function)(memory[:4], memory[1:]), function(other[:4], other[1:]))
    torch.testing.assert_close(memory, other)


def test_an_input_with_gaps_is_changed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        return x.sum()

    whole = torch.ones(4, 6)
    agree(compiled(function)(whole[:, ::2]), torch.tensor(36.0))
    assert whole.sum() == 36 + 12


# ---------------------------------------------------------------------------------------- weights


def test_weights_that_change_become_inputs(
    builds: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    fast, x = compiled(net), torch.rand(3, 4)
    fast(x)
    for _ in range(3):
        net[0].weight.add_(1)
        agree(fast(x), net(x))
    assert [len(mod["main"].params) for mod in builds] == [1, 2]
    assert caplog.text.count("1 weight(s) of a graph were changed") == 1
    net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})
    agree(fast(x), net(x))


def test_a_buffer_that_another_graph_changes(builds: list[Any]) -> None:
    net = Cached()
    fast = compiled(net)
    read = compiled(lambda: net.rows * 2)
    for k in range(3):
        fast(torch.ones(2, 1, 128), torch.tensor([k]))
        assert read().sum() == 2 * net.rows.sum() == 2 * 2 * 128 * (k + 1)


def test_models_in_inference_mode() -> None:
    with torch.inference_mode():
        net, x = Net().eval(), torch.rand(2, 3, 8, 8)
        agree(compiled(net)(x), net(x))


# ------------------------------------------------------------------------------ options, refusals


class Seen(KnownSchedules):
    """Records the names of functions, and returns no schedules."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def scheduled(self, name: str, func: PrimFunc, target: Target) -> PrimFunc | None:
        self.names.append(name)
        return None


def test_an_entered_database_is_used() -> None:
    seen, net = Seen(), Net().eval()
    with seen:
        compiled(net)(torch.rand(1, 3, 8, 8))
    assert any("conv2d" in name for name in seen.names)


def test_a_graph_for_training_runs_in_torch(
    builds: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    torch_backend._warn_of_training.cache_clear()
    net, x = Net().eval(), torch.rand(2, 3, 8, 8)
    with torch.enable_grad(), caplog.at_level(logging.WARNING):
        for _ in range(2):
            compiled(net)(x).sum().backward()
            torch.compiler.reset()
    assert net.last.weight.grad is not None
    assert not builds
    assert caplog.text.count("this backend only does inference") == 1


def test_all_unsupported_operators_are_in_one_error() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.digamma(x), torch.cond(x.sum() > 0, torch.digamma, torch.i0, (x,))

    with pytest.raises(
        Exception, match=r"2 operator\(s\) .*:\n  aten.digamma.*2 .*\n  aten.i0.*1 "
    ):
        compiled(function)(torch.rand(3))


def test_another_device() -> None:
    with pytest.raises(Exception, match="a graph has tensors on meta; move them to the CPU"):
        compiled(lambda x: x + 1)(torch.rand(3, device="meta"))


def test_an_unknown_option() -> None:
    with pytest.raises(
        Exception, match="unknown option 'threads'; the options are target, database, on_module"
    ):
        compiled(lambda x: x + 1, options={"threads": 2})(torch.rand(3))


# ------------------------------------------------------------------------------ branches and loops


def test_branches_and_loops() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
        return while_loop(
            lambda k, y: k < n,
            lambda k, y: (k + 1, y * 1.5),
            (torch.zeros((), dtype=torch.int64), y),
        )

    fast = compiled(function)
    for x in (torch.rand(3), -torch.rand(3), torch.rand(5)):
        agree(fast(x, torch.tensor(4)), function(x, torch.tensor(4)))
