"""Convolutions with the channels last, and what follows them."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import IRModule, assert_structural_equal, parse
from tensorir.errors import IRValueError
from tensorir.transform import CanonicalizeBindings, ConvertLayout, DecomposeOps

BEFORE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"),
             b: R.Tensor((4, 1, 1), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=1)
            z = R.nn.relu(R.add(y, b))
            p = R.nn.max_pool2d(z, pool_size=2, strides=2)
            c = R.concat((p, p), axis=1)
            s = R.sum(c, axis=[2, 3])
            R.output(s)
        return s
"""
AFTER = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"),
             b: R.Tensor((4, 1, 1), "float32")):
        with R.dataflow():
            x1 = R.permute_dims(x, axes=(0, 2, 3, 1))
            w1 = R.permute_dims(w, axes=(2, 3, 1, 0))
            y = R.nn.conv2d(x1, w1, padding=1, data_layout="NHWC", kernel_layout="HWIO")
            b1 = R.expand_dims(b, axis=[0])
            b2 = R.permute_dims(b1, axes=(0, 2, 3, 1))
            lv = R.add(y, b2)
            z = R.nn.relu(lv)
            p = R.nn.max_pool2d(z, pool_size=2, strides=2, layout="NHWC")
            c = R.concat((p, p), axis=3)
            s = R.sum(c, axis=[1, 2])
            R.output(s)
        return s
"""


def module(text: str) -> IRModule:
    mod = parse(text)
    assert isinstance(mod, IRModule)
    return mod


def test_what_follows_a_convolution_follows_its_layout() -> None:
    assert_structural_equal(ConvertLayout()(module(BEFORE)), module(AFTER))


def test_results_are_those_of_before() -> None:
    rng = np.random.default_rng(0)
    shapes = [(1, 3, 6, 6), (4, 3, 3, 3), (4, 1, 1)]
    args = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    results = []
    for mod in (module(BEFORE), ConvertLayout()(module(BEFORE))):
        built = codegen.vm_build(mod, "llvm", default_schedules=False)
        results.append(codegen.VirtualMachine(built, codegen.cpu())["main"](*args).numpy())
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        # Constants are brought into their order at once, and numbers have none.
        ("R.add(y, 1.0)", ["R.add(y, R.const(1.0))"]),
        # Reshapes see the elements in their natural order.
        ("R.reshape(y, (4, 36))", ["R.permute_dims(y, axes=[0, 3, 1, 2])", "R.reshape("]),
        # A dimension that is named keeps its elements.
        ("R.nn.softmax(y, axis=1)", ["R.nn.softmax(y, axis=3)"]),
    ],
)
def test_rules(value: str, lines: list[str]) -> None:
    after = ConvertLayout()(
        module(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=1)
            z = {value}
            R.output(z)
        return z
""")
    )
    text = after.script().replace(', "float32")', ")")
    assert [line for line in lines if line not in text] == [], text


def test_a_value_of_a_branch_is_brought_back_in_the_branch() -> None:
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((3, 3, 3, 3), "float32"),
             c: R.Tensor((), "bool")):
        y = R.nn.conv2d(x, w, padding=1)
        if c:
            z = R.nn.relu(y)
        else:
            z = R.reshape(y, (1, 3, 6, 6))
        return (y, z)
""")
    after = ConvertLayout()(mod)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in [(1, 3, 6, 6), (3, 3, 3, 3)])
    for c in (True, False):
        results = []
        for each in (mod, after):
            built = codegen.vm_build(each, "llvm", default_schedules=False)
            out = codegen.VirtualMachine(built, codegen.cpu())["main"](x, w, np.array(c))
            results.append([value.numpy() for value in out])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_layout_of_other_dimensions() -> None:
    with pytest.raises(IRValueError, match="layout NCHW cannot become NWC"):
        ConvertLayout({"relax.nn.conv2d": ["NWC", "WIO"]})(module(BEFORE))


def test_a_module_without_convolutions_is_the_same() -> None:
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3), "float32")):
        y = R.nn.relu(x)
        return y
""")
    assert ConvertLayout()(mod)["main"] is mod["main"]


def test_decompose_ops_keeps_what_it_is_told_to() -> None:
    mod = module("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), g: R.Tensor((3,), "float32"),
             b: R.Tensor((3,), "float32"), m: R.Tensor((3,), "float32"),
             v: R.Tensor((3,), "float32")):
        y = R.nn.batch_norm(x, g, b, m, v, axis=1)
        z = y[0]
        return z
""")
    assert DecomposeOps(["nn.batch_norm"])(mod).script() == mod.script()
    text = CanonicalizeBindings()(DecomposeOps()(mod)).script()
    assert "batch_norm" not in text
    assert "R.subtract" in text or "R.multiply" in text
