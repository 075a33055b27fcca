"""ConvertToDataflow: bindings without effects become dataflow blocks."""

from __future__ import annotations

from tensorir import IRModule, assert_structural_equal, parse
from tensorir.transform import ConvertToDataflow

BEFORE = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        a = R.nn.relu(x)
        b = R.add(a, x)
        _ = R.call_packed("print", b)
        d = R.nn.relu(b)
        if c:
            e = R.nn.relu(d)
            f = R.add(e, d)
            g = f
        else:
            g = x
        return g
"""

AFTER = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, x)
            R.output(b)
        _ = R.call_packed("print", b)
        d = R.nn.relu(b)
        if c:
            with R.dataflow():
                e = R.nn.relu(d)
                f = R.add(e, d)
                R.output(f)
            g = f
        else:
            g = x
        return g
"""


def test_effects_and_branches_stay_between_the_blocks() -> None:
    before, after = parse(BEFORE), parse(AFTER)
    assert isinstance(before, IRModule)
    assert_structural_equal(ConvertToDataflow()(before), after)


def test_what_is_converted_stays() -> None:
    after = parse(AFTER)
    assert isinstance(after, IRModule)
    assert_structural_equal(ConvertToDataflow()(after), after)


def test_blocks_of_one_binding_may_be_made() -> None:
    mod = parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    y = R.nn.relu(x)
    return y
""")
    wrapped = IRModule({"main": mod})
    assert "dataflow" not in ConvertToDataflow()(wrapped).script()
    assert "dataflow" in ConvertToDataflow(min_size=1)(wrapped).script()
