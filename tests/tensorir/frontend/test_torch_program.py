"""Exported programs as modules: parameters, symbolic sizes, results, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models of torch need the extra `torch`")

from torch import nn
from torch.export import Dim, export

import codegen
from tensorir import IRTypeError, IRValueError, frontend
from tensorir.frontend.torch.table import TABLE, converter
from tensorir.relax.expr import Constant
from tests.exported import built, check, compare, imported


class Scaled(nn.Module):
    """A weight, a buffer that is saved and one that is not, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0))
        self.register_buffer("kept", torch.ones(4))
        self.register_buffer("made", torch.full((4,), 2.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.kept * self.made + torch.tensor([0.5])


X = torch.arange(8.0).reshape(2, 4)


def test_a_program_becomes_a_graph_function() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + y) * 2

    mod = imported(Net(), (X, X + 1))
    assert (
        mod.script().partition("\n\n")[2]
        == """@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 4), dtype="float32"), y: R.Tensor((2, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
        with R.dataflow():
            add: R.Tensor((2, 4), dtype="float32") = R.add(x, y)
            relu: R.Tensor((2, 4), dtype="float32") = R.nn.relu(add)
            mul: R.Tensor((2, 4), dtype="float32") = R.multiply(relu, R.const(2.0, "float32"))
            gv: R.Tensor((2, 4), dtype="float32") = mul
            R.output(gv)
        return gv"""
    )


def test_weights_buffers_and_constants_are_part_of_the_program() -> None:
    module = Scaled()
    mod = check(module, (X,))
    assert [p.name for p in mod["main"].params] == ["x"]
    held = [a.data for b in mod["main"].body.bindings for a in getattr(b.value, "args", ())
            if isinstance(a, Constant)]  # fmt: skip
    assert any(np.shares_memory(a, module.weight.detach().numpy()) for a in held)


class Weighted(nn.Module):
    """Weights that are read as they are or transposed, large and small."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.linear = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.conv = nn.Conv1d(32, 64, 1)
        self.free = nn.Parameter(torch.randn(64, 64))
        self.register_buffer("kept", torch.randn(64))
        self.constant = torch.randn(1, 64)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.embedding(x)
        return y, self.linear(y) @ self.free, self.conv(y.mT).mT + self.kept + self.constant


def test_weights_are_read_when_the_model_is_built() -> None:
    net, x = Weighted().eval(), torch.tensor([[0, 63, 5]])
    vm = codegen.VirtualMachine(codegen.vm_build(imported(net, (x,))))
    with torch.no_grad():
        expected = [tensor.clone() for tensor in net(x)]
        for tensor in (*net.parameters(), *net.buffers(), net.constant):
            tensor.fill_(1)
    close(vm["main"](x), expected, 1e-4)


def test_a_program_that_was_saved_and_loaded(tmp_path: Path) -> None:
    class Halved(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)[: x.shape[0] // 2]

    module = Halved().eval()
    rows = {"x": {0: Dim("n", min=4, max=9)}}
    torch.export.save(
        export(module, (torch.rand(6, 4),), dynamic_shapes=rows), tmp_path / "model.pt2"
    )
    mod = frontend.from_exported_program(torch.export.load(tmp_path / "model.pt2"))
    for n in (4, 7):
        x = torch.rand(n, 4)
        result = built(mod)["main"](x)
        np.testing.assert_allclose(result.numpy(), module(x).detach().numpy(), rtol=1e-6)


def test_weights_as_parameters() -> None:
    module = Scaled().eval()
    mod = frontend.from_exported_program(export(module, (X,)), keep_params_as_input=True)
    main = mod["main"]
    assert [p.name for p in main.params] == ["x", "p_weight"]
    assert [p.name for p in main.weights] == ["p_weight"]
    (weight,) = main.attrs["params"].elements
    result = built(mod)["main"](X, 2 * weight.data)
    expected = (X * 2 * module.weight + 2.5).detach().numpy()
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


# ------------------------------------------------------------------------------------------ sizes


def test_symbolic_sizes_are_those_of_the_export() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            n, m = x.shape[0], y.shape[0]
            z = torch.cat([x, y]).reshape(-1, 2)
            scaled = x * torch.sym_sqrt(n) + n / 2
            return z * (n + m), torch.arange(n) * 2, x.sum() / n, x[: n - 1], scaled, n * m

    n, m = Dim("n", min=3, max=6), Dim("m")
    inputs = torch.rand(4, 4), torch.rand(5, 4)
    mod = imported(Net(), inputs, {"x": {0: n}, "y": {0: m}})
    vm = built(mod)
    for rows in ((4, 5), (6, 2), (3, 1)):
        x, y = (torch.rand(k, 4) for k in rows)
        *arrays, product = vm["main"](x, y)
        *tensors, expected = Net()(x, y)
        for array, tensor in zip(arrays, tensors, strict=True):
            np.testing.assert_allclose(array.numpy(), tensor.numpy(), rtol=1e-6)
        assert product == expected
    with pytest.raises(IRValueError, match=r"_at_least_3_at_most_6.*extent 0 is 7"):
        vm["main"](torch.rand(7, 4), torch.rand(5, 4))


def test_numbers_from_tensors_may_be_negative_or_out_of_range() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> Any:
            number = n.item()
            return x[: m.item()], x[number:] + 1, x[number : number + 2, 1], x[n], x[:, -n]

    x = torch.rand(4, 5)
    mod = imported(Net(), (x, torch.tensor(1), torch.tensor(2)))
    main = built(mod)["main"]
    for n, m in ((0, 0), (3, 4), (-3, -1), (-1, 9), (-4, -9)):
        arguments = x, torch.tensor(n), torch.tensor(m)
        compare(main(*arguments), Net()(*arguments), 0, 0)


def test_what_torch_asserts_about_numbers_is_checked() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
            number = n.item()
            torch._check(number >= 1)
            torch._check(number <= 4)
            return x[:number], x[-number:], x.split([number, 4 - number])

    x = torch.rand(4, 5)
    main = built(imported(Net(), (x, torch.tensor(1))))["main"]
    for n in (1, 4):
        compare(main(x, torch.tensor(n)), Net()(x, torch.tensor(n)), 0, 0)
    for n, message in ((0, "at_least_1"), (-1, "at_least_1"), (5, "at_most_4")):
        with pytest.raises(IRValueError, match=f"assert_u0_{message}"):
            main(x, torch.tensor(n))


def test_a_row_at_a_number_from_a_tensor_is_replaced() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
            return torch.select_scatter(x, row, 1, n.item())

    x, row = torch.rand(4, 5), torch.rand(4)
    exported = torch.export.export(Net(), (x, torch.tensor(1), row))
    main = built(frontend.from_exported_program(exported))["main"]
    for n in (0, 4, -1, -5):
        compare(main(x, torch.tensor(n), row), Net()(x, torch.tensor(n), row), 0, 0)


def test_strides_of_a_view_are_refused() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_strided(x.t(), (2, 3), (5, 2))

    with pytest.raises(IRTypeError, match=r"t is a view; call clone\(\) before as_strided"):
        imported(Net(), (torch.rand(4, 5),))


def test_repetitions_determine_a_size() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
            return torch.repeat_interleave(x, times, 0) * 2

    x = torch.rand(4, 5)
    check(Net(), (x, torch.tensor([1, 2, 3, 2])), (x, torch.tensor([0, 0, 1, 0])))


def test_a_size_that_is_a_multiple_is_checked() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(x.shape[0] // 2, 2, 3).sum(1)

    half = Dim("half", max=8)
    mod = imported(Net(), (torch.rand(6, 3),), {"x": {0: 2 * half}})
    main = built(mod)["main"]
    x = torch.rand(10, 3)
    np.testing.assert_allclose(main(x).numpy(), Net()(x).numpy(), rtol=1e-6)
    with pytest.raises(IRValueError, match="dimension 0 is 5, expected 4"):
        main(torch.rand(5, 3))


def test_sizes_that_are_equal_are_one() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    batch = Dim("batch")
    dynamic = {"x": {0: batch}, "y": {0: batch}}
    main = built(imported(Net(), (torch.rand(2, 3), torch.rand(2, 3)), dynamic))["main"]
    with pytest.raises(IRValueError, match="'y': dimension 0 is 4, expected 3"):
        main(torch.rand(3, 3), torch.rand(4, 3))


def test_sizes_that_data_decide() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
            count = n.item()
            torch._check(count >= 0)
            torch._check(count <= 4)
            return x[x[:, 0] > 0], x.nonzero(), torch.full((count,), 2.0)

    check(
        Net(),
        (torch.tensor([[1.0, 0.0], [-1.0, 2.0], [3.0, 4.0]]), torch.tensor(3)),
        (torch.tensor([[-1.0, 0.0], [-1.0, 2.0], [-3.0, 4.0]]), torch.tensor(0)),
    )


def test_padding_by_a_size() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.pad(x, (1, y.shape[0]))

    sizes = ({0: Dim("n")}, {0: Dim("m")})
    program = export(Net(), (torch.ones(3), torch.ones(4)), dynamic_shapes=sizes)
    main = built(frontend.from_exported_program(program))["main"]
    for n, m in ((5, 2), (2, 9)):
        x, y = torch.ones(n), torch.ones(m)
        compare(main(x, y), Net()(x, y), rtol=0, atol=0)


# ------------------------------------------------------------------------------- inputs, results


class Two(nn.Module):
    def forward(self, x: torch.Tensor, options: dict[str, Any], flag: bool = True) -> Any:
        y = x + options["shift"] if flag else x
        return {"sum": y, "rest": [None, 3, y.sum()], "same": x}


def test_inputs_and_results_are_flat() -> None:
    module = Two()
    mod = imported(module, (X, {"shift": torch.ones(4)}, True))
    assert [p.name for p in mod["main"].params] == ["x", "options_shift"]
    total, nothing, three, scalar, same = built(mod)["main"](X, torch.ones(4))
    np.testing.assert_array_equal(total.numpy(), (X + 1).numpy())
    assert (nothing, three.numpy(), scalar.numpy()) == ((), 3, (X + 1).sum().numpy())
    np.testing.assert_array_equal(same.numpy(), X.numpy())


def test_a_model_that_returns_one_tensor_gives_one_array() -> None:
    class OfOne(Scaled):
        def forward(self, x: torch.Tensor) -> Any:
            return {"y": super().forward(x)}

    one, (also_one,) = (
        built(imported(Scaled(), (X,)))["main"](X),
        built(imported(OfOne(), (X,)))["main"](X),
    )
    assert one.shape == also_one.shape == (2, 4)


def test_forms_of_the_result() -> None:
    class OfOne(Scaled):
        def forward(self, x: torch.Tensor) -> Any:
            return (super().forward(x),)

    exported = export(OfOne(), (X,))
    plain = frontend.from_exported_program(exported, unwrap_unit_return_tuple=True)
    assert built(plain)["main"](X).numpy().shape == (2, 4)
    unbound = frontend.from_exported_program(exported, no_bind_return_tuple=True)
    assert unbound.script().splitlines()[-1].strip() == "return (gv,)"


def test_what_is_computed_without_gradients_is_inlined() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = torch.relu(x) * 2
            return y + x

    check(Net(), (X - 3,))


def test_changes_in_place_are_those_of_values() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y[:, 1:3] += 1
            y[0] = 5
            return y.relu_().mul_(2)

    check(Net(), (X - 3,))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "uint8", "bool"])
def test_dtypes(dtype: str) -> None:
    kind = getattr(torch, dtype)
    weight = torch.tensor([1, 0, 1, 1]).to(kind)

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * weight

    mod = imported(Net(), (torch.ones(2, 4, dtype=kind),))
    assert f'dtype="{dtype}"' in str(mod["main"].params[0].struct_info)
    result = torch.from_dlpack(built(mod)["main"](torch.ones(2, 4, dtype=kind)))
    assert torch.equal(result, torch.ones(2, 4).to(kind) * weight)


def close(result: Any, expected: Any, rtol: float = 0.02) -> None:
    for array, tensor in zip(result, expected, strict=True):
        own = torch.from_dlpack(array)
        assert own.dtype is tensor.dtype
        torch.testing.assert_close(own, tensor, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_layers_of_16_bits_are_computed_as_in_torch(kind: torch.dtype) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.norm, self.wide = nn.BatchNorm2d(3).to(kind), nn.BatchNorm2d(3)
            self.block = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU()).to(kind)
            for norm in (self.norm, self.wide, self.block[1]):
                norm.running_mean.normal_()
                norm.running_var.uniform_(0.5, 2)
            self.root = nn.RMSNorm(6).to(kind)

        def forward(self, x: torch.Tensor) -> Any:
            small = x * 0.01
            return self.norm(x), self.wide(x), self.block(x), self.root(small), x.max(-1).values

    net, x = Net().eval(), torch.randn(2, 3, 6, 6).to(kind)
    with torch.no_grad():
        close(built(imported(net, (x,)))["main"](x), net(x))


def test_regions_of_autocast_have_its_casts() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.linear(x)
                with torch.autocast("cpu", enabled=False):
                    z = self.linear(x)
            return y, y + x.sum(), z

    net = Net().eval()
    with torch.no_grad():
        close(built(imported(net, (X,)))["main"](X), net(X), 0.05)


def test_functions_over_a_batch_are_operators_of_the_whole() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return torch.vmap(torch.dot)(x, y), torch.vmap(lambda a: a.sum() * 2, in_dims=1)(x)

    check(Net(), (X, X + 1))


def test_negations_that_torch_puts_off_are_made() -> None:
    constant = torch._neg_view(torch.ones(4))

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch._neg_view(x) + constant, x.conj().resolve_conj().resolve_neg()

    check(Net(), (X,), (torch._neg_view(X),))


@pytest.mark.parametrize(
    "given",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        lambda x: x.repeat_interleave(2, 3)[..., ::2],
        lambda x: x.clone().requires_grad_(),
        lambda x: x[:1].expand(2, 3, 4, 5),
        lambda x: x.tolist(),
    ],
    ids=["channels_last", "permuted", "every second", "differentiated", "stretched", "lists"],
)
def test_tensors_of_any_layout_are_taken(given: Any) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x * 2

    x = torch.randn(2, 3, 4, 5)
    value = given(x)
    result = built(imported(Net(), (x,)))["main"](value)
    assert torch.equal(torch.from_dlpack(result), torch.as_tensor(value) * 2)


# ---------------------------------------------------------------------------------------- refused


def test_all_unsupported_operators_are_in_one_error() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x) + torch.linalg.eigvalsh(x + 1) + torch.digamma(x)[0]

    with pytest.raises(IRValueError) as caught:
        imported(Net(), (torch.rand(3, 3),))
    assert str(caught.value).splitlines()[:3] == [
        "the model has 2 operator(s) that are not supported:",
        "  aten._linalg_eigh.default: 2 (_linalg_eigh, _linalg_eigh_1)",
        "  aten.digamma.default: 1 (digamma)",
    ]


def test_what_torch_cannot_decompose_is_in_that_error() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.func.grad(lambda a: (a * a).sum())(x) + torch.digamma(x)

    with pytest.raises(IRValueError, match=r"are not supported:(?s:.)*\.predispatch\._\w+: ") as e:
        imported(Net(), (X,))
    assert "aten.digamma.default: 1 (digamma)" in str(e.value)


def test_a_converter_of_ones_own() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.digamma(x)

    @converter("aten.digamma.default")
    def negated(self: Any) -> Any:
        return -self

    try:
        result = built(imported(Net(), (X,)))["main"](X)
        np.testing.assert_array_equal(result.numpy(), -X.numpy())
        with pytest.raises(IRValueError, match=r"aten\.digamma\.default already has a converter"):
            converter("aten.digamma.default")(negated)
    finally:
        del TABLE["aten.digamma.default"]


def test_arguments_that_matter_and_are_not_supported_are_named() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.avg_pool2d(x, 2, divisor_override=3)

    with pytest.raises(
        IRTypeError, match=r"node avg_pool2d \(aten\.avg_pool2d\.default\): divisor"
    ):
        imported(Net(), (torch.rand(1, 1, 4, 4),))


def test_what_is_no_exported_program() -> None:
    with pytest.raises(IRTypeError, match=r"expected a torch\.export\.ExportedProgram, got Linear"):
        frontend.from_exported_program(nn.Linear(2, 3))


def test_complex_numbers_are_refused() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fft(x).real

    with pytest.raises((IRTypeError, IRValueError), match="not supported"):
        imported(Net(), (X,))
