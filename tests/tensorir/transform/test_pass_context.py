"""Passes of one's own, contexts, instruments."""

from __future__ import annotations

import io

import pytest
from graph_modules import is_same, module_of

from tensorir import IRModule, IRTypeError, IRValueError, WellFormedError, parse, renew_defs
from tensorir.transform import (
    BindParams,
    CallTIRRewrite,
    DeadCodeElimination,
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


def test_functions_and_classes_become_passes():
    assert drop_both.name == "DropBoth"
    assert "both" not in drop_both(MOD)
    assert CopyAdd("plus").name == "CopyAdd"
    assert "plus" in CopyAdd("plus")(MOD)
    with PassContext(config={"mark": 2}):
        assert mark(MOD)["main"].attrs["marked"] == 2
    assert "marked" not in MOD["main"].attrs


def test_a_pass_gives_a_module_of_its_own_even_if_nothing_changes():
    @module_pass
    def nothing(mod, ctx):
        return mod

    after = nothing(MOD)
    assert after is not MOD
    assert is_same(after, MOD)


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
        (lambda: CallTIRRewrite()(MOD["main"]), "CallTIRRewrite takes a module, got Function"),
        (lambda: Sequential([CallTIRRewrite]), "call a pass class to make one"),
        (lambda: PassContext(disabled_pass="CallTIRRewrite"), "must be a list of names"),
        (lambda: module_pass(lambda mod, ctx: None)(MOD), "must return a module, got NoneType"),
        (lambda: module_pass(3), "made of a function or a class, got 3"),
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
