"""Pass contexts, instruments, and passes that rewrite bindings."""

from __future__ import annotations

import io

import numpy as np
import pytest
from graph_modules import is_same, module_of

import codegen
from tensorir import (
    IRModule,
    IRTypeError,
    IRValueError,
    WellFormedError,
    assert_structural_equal,
    parse,
    renew_defs,
)
from tensorir.transform import (
    BindParams,
    CallTIRRewrite,
    CanonicalizeBindings,
    ConvertLayout,
    ConvertToDataflow,
    DeadCodeElimination,
    DecomposeOps,
    PassContext,
    PassInstrument,
    PassTimingInstrument,
    PrintAfter,
    PrintBefore,
    Sequential,
    VerifyAfterEach,
    function_pass,
    lower_graph,
    module_pass,
)

# ---------------------------------------------------------------------------- contexts, instruments

MOD = module_of("""
    @R.function
    def main(x: F4):
        cls = Module
        lv = R.call_tir(cls.double, (x,), out_sinfo=F4)
        return x
""")


@module_pass(opt_level=3, name="DropBoth")
def drop_both(mod, ctx):
    return IRModule({name: func for name, func in mod.functions.items() if name != "both"})


@function_pass
def mark(func, mod, ctx):
    return func.with_attr("marked", ctx.config.get("mark", 1))


@module_pass(opt_level=1)
class CopyAdd:
    def __init__(self, name):
        self.copy = name

    def transform_module(self, mod, ctx):
        return IRModule({**mod.functions, self.copy: renew_defs(mod["add"])})


def test_a_sequence_skips_what_the_context_does_not_want():
    steps = Sequential([drop_both, CopyAdd("plus")])

    def ran():
        after = steps(MOD)
        return "both" not in after, "plus" in after

    assert ran() == (False, True)
    with PassContext(opt_level=3):
        assert ran() == (True, True)
    with PassContext(required_pass=["DropBoth"], disabled_pass=["CopyAdd"]):
        assert ran() == (True, False)
    with PassContext(opt_level=0):
        assert is_same(steps(MOD), MOD)


def test_a_pass_may_require_another_one_before_it():
    needy = module_pass(lambda mod, ctx: mod, name="Needy", required=["CopyAdd"])
    Sequential([CopyAdd("plus"), needy])(MOD)
    with pytest.raises(IRValueError, match="Needy needs CopyAdd before it in pipeline"):
        Sequential([needy], name="pipeline")(MOD)


def test_the_innermost_context_is_current():
    with PassContext(opt_level=0) as outer:
        with PassContext(opt_level=3) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 2


def test_what_changed_is_printed_after_a_pass():
    file = io.StringIO()
    with PassContext(instruments=[PrintAfter("DeadCodeElimination", file=file)]):
        lower_graph(MOD)
    text = file.getvalue()
    assert text.startswith("# after DeadCodeElimination; removed: add, double, increment, both")
    assert "def main" in text
    assert "prim_func" not in text
    assert text.count("# after") == 1


def test_modules_are_printed_before_every_pass():
    file = io.StringIO()
    with PassContext(instruments=[PrintBefore(file=file)]):
        Sequential([CallTIRRewrite(), DeadCodeElimination()])(MOD)
    titles = [line for line in file.getvalue().splitlines() if line.startswith("# before")]
    assert titles == [
        "# before sequential",
        "# before CallTIRRewrite",
        "# before DeadCodeElimination",
    ]


def test_passes_are_timed():
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([CallTIRRewrite(), DeadCodeElimination()])(MOD)
    rows = [line.split()[0] for line in timing.render().splitlines()]
    assert rows == ["sequential", "CallTIRRewrite", "DeadCodeElimination", "total"]


class Log(PassInstrument):
    def __init__(self, skipped=()):
        self.events = []
        self.skipped = skipped

    def enter_pass_ctx(self):
        self.events.append("enter")

    def exit_pass_ctx(self):
        self.events.append("exit")

    def should_run(self, mod, info):
        return info.name not in self.skipped

    def run_before_pass(self, mod, info):
        self.events.append(f"before {info.name}")

    def run_after_pass(self, mod, info):
        self.events.append(f"after {info.name}")


def test_instruments_look_on_and_may_skip():
    log = Log(skipped=["CallTIRRewrite"])
    with PassContext(instruments=[log]):
        assert is_same(CallTIRRewrite()(MOD), MOD)
        DeadCodeElimination()(MOD)
    assert log.events == [
        "enter", "before DeadCodeElimination", "after DeadCodeElimination", "exit"
    ]  # fmt: skip


def test_a_pass_that_breaks_a_module_is_named():
    before = module_of("""
        @R.function
        def main(x: F4):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            b = R.call_tir(cls.double, (x,), out_sinfo=F4)
            c = R.call_tir(cls.add, (a, b), out_sinfo=F4)
            return c
    """)
    lowered = lower_graph(before)

    @module_pass(name="Overlap")
    def overlap(mod, ctx):
        return parse(lowered.script().replace("R.prim_value(64)", "R.prim_value(0)"))

    with pytest.raises(WellFormedError, match="has overwritten it; in function main") as raised:
        overlap(before)
    assert "in the pass Overlap" in raised.value.__notes__
    with pytest.raises(WellFormedError), PassContext(instruments=[VerifyAfterEach()]):
        overlap(before)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: CallTIRRewrite()(MOD["main"]), "CallTIRRewrite needs a module, got Function"),
        (lambda: Sequential([CallTIRRewrite]), "call a pass class to create one"),
        (lambda: PassContext(disabled_pass="CallTIRRewrite"), "must be a list of names"),
        (lambda: module_pass(lambda mod, ctx: None)(MOD), "must return a module, got NoneType"),
        (lambda: module_pass(3), "made from a function or a class, got 3"),
    ],
)
def test_misuse_is_named(action, message):
    with pytest.raises(IRTypeError, match=message):
        action()


def test_errors_are_noted_pass_and_function():
    @function_pass(name="Fail")
    def fail(func, mod, ctx):
        raise IRValueError("no")

    with pytest.raises(IRValueError) as raised:
        Sequential([fail, BindParams("main", {})])(MOD)
    assert raised.value.__notes__ == [
        "in the function main", "in the pass Fail", "in the pass sequential"
    ]  # fmt: skip


# ------------------------------------------------------------------------------ DeadCodeElimination


def test_a_cast_that_may_fail_is_a_check_and_stays():
    mod = module_of("""
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            y = R.match_cast(x, F4)
            return x
    """)
    assert is_same(DeadCodeElimination(["double", "add"])(mod), mod) is False
    assert DeadCodeElimination()(mod)["main"] is mod["main"]


def test_entries_are_named_and_without_entries_everything_stays():
    mod = module_of("""
        @R.function
        def main(x: F4):
            return x
    """)
    assert sorted(DeadCodeElimination(["add"])(mod)) == ["add", "main"]
    private = mod.clone()
    private["main"] = mod["main"].without_attr("global_symbol")
    assert is_same(DeadCodeElimination()(private), private)
    with pytest.raises(IRValueError, match='Cannot find global var "sub"'):
        DeadCodeElimination(["sub"])(mod)
    with pytest.raises(IRTypeError, match="must be a list of names"):
        DeadCodeElimination("add")


# -------------------------------------------------------------------------------- ConvertToDataflow

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


# ------------------------------------------------------------------------------------ ConvertLayout

CONVERT_BEFORE = """
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
CONVERT_AFTER = """
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
    assert_structural_equal(ConvertLayout()(module(CONVERT_BEFORE)), module(CONVERT_AFTER))


def test_results_are_those_of_before() -> None:
    rng = np.random.default_rng(0)
    shapes = [(1, 3, 6, 6), (4, 3, 3, 3), (4, 1, 1)]
    args = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    results = []
    for mod in (module(CONVERT_BEFORE), ConvertLayout()(module(CONVERT_BEFORE))):
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
    before, converted = (
        codegen.VirtualMachine(codegen.vm_build(each, "llvm", default_schedules=False))["main"]
        for each in (mod, after)
    )
    for c in (True, False):
        pairs = zip(before(x, w, np.array(c)), converted(x, w, np.array(c)), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_a_layout_of_other_dimensions() -> None:
    with pytest.raises(IRValueError, match="layout NCHW cannot become NWC"):
        ConvertLayout({"relax.nn.conv2d": ["NWC", "WIO"]})(module(CONVERT_BEFORE))


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
