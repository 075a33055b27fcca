"""The sources of design spaces, and their order."""

from __future__ import annotations

from typing import Any

import pytest

import search as ms
from schedule import BlockRV, Schedule
from search.cost_model import RandomModel
from search.database import MemoryDatabase
from search.errors import TuningError
from search.measure_callback import AddToDatabase
from search.mutator import MutateUnroll
from search.postproc import DisallowDynamicLoop
from search.runner import LocalRunner
from search.schedule_rule import ApplyCustomRule, AutoInline, ScheduleRule, register_custom_rule
from search.search_strategy import EvolutionarySearch
from search.space_generator import (
    PostOrderApply,
    ScheduleFn,
    SpaceGenerator,
    SpaceGeneratorUnion,
)
from tensorir import parse
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc
from tests.search.programs import Matmul, split_j

TWO_STAGES = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * T.float32(2)
"""


def two_stages(text: str = TWO_STAGES) -> IRModule:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return IRModule({"main": func})


def generate(
    space: SpaceGenerator, mod: IRModule, target: str | None = "llvm -num-cores=2"
) -> list[Schedule]:
    task = ms.TuneContext(mod, target=target, space_generator=space, rand_state=1)
    return task.generate_design_space()


def rules_only(*rules: ScheduleRule, **options: Any) -> PostOrderApply:
    return PostOrderApply(sch_rules=rules, postprocs=[], mutator_probs={}, **options)


class Mark(ScheduleRule):
    """Gives a block one of two marks, one in each design, and remembers where it has been."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.seen: list[str] = []

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        name = sch.get(block).name_hint
        self.seen.append(name)
        if name != "C":
            return [sch]
        other = sch.copy()
        sch.annotate(block, self.key, 0)
        other.annotate(block, self.key, 1)
        return [sch, other]


def marks(spaces: list[Schedule]) -> list[dict[str, int]]:
    return [
        {k: int(v) for k, v in s.get(s.get_block("C", "main")).annotations.items()} for s in spaces
    ]


class Nothing(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        return [sch]


class Inline(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if sch.get(block).name_hint == "B":
            sch.compute_inline(block)
        return [sch]


# ----------------------------------------------------------------------------------- PostOrderApply


def test_blocks_are_visited_from_the_last_to_the_first() -> None:
    rule = Mark("x")
    spaces = generate(rules_only(rule), two_stages())
    assert rule.seen[:2] == ["root", "C"]
    assert rule.seen.count("B") == len(spaces) == 2


def test_forks_take_the_place_of_what_they_were_made_from() -> None:
    assert marks(generate(rules_only(Mark("x")), two_stages())) == [{"x": 0}, {"x": 1}]
    assert marks(generate(rules_only(Mark("x"), Mark("y")), two_stages())) == [
        {"x": 0, "y": 0},
        {"x": 0, "y": 1},
        {"x": 1, "y": 0},
        {"x": 1, "y": 1},
    ]


def test_forks_that_multiply_are_bounded_and_each_is_in_as_many_spaces() -> None:
    keys = "abcdefgh"
    made = marks(generate(rules_only(*map(Mark, keys)), two_stages()))
    assert len(made) == 128
    for key in keys:
        assert 40 <= sum(mark[key] for mark in made) <= 88, key
    assert made == marks(generate(rules_only(*map(Mark, keys)), two_stages()))


def test_some_design_spaces_have_all_forms_of_a_block() -> None:
    for space in (rules_only(Mark("x"), Mark("y")), SpaceGeneratorUnion([rules_only(Mark("x"))])):
        context = ms.TuneContext(two_stages(), target="llvm -num-cores=2", space_generator=space)
        some = context.generate_design_space(2)
        assert {mark["x"] for mark in marks(some)} == {0, 1}
        assert len(some) == 2


def test_a_rule_that_changes_nothing_leaves_the_order_as_it_is() -> None:
    rules = [Mark("x"), Nothing(), Mark("y")]
    for count in range(3):
        rules.append(Nothing())
        made = marks(generate(rules_only(*rules), two_stages()))
        assert made == marks(generate(rules_only(Mark("x"), Mark("y")), two_stages())), count


def test_blocks_that_a_rule_removed_are_skipped() -> None:
    rule = Mark("x")
    generate(rules_only(Inline(), rule), two_stages())
    assert "B" not in rule.seen


def test_a_filter_leaves_blocks_out() -> None:
    rule = Mark("x")
    generate(rules_only(rule, f_block_filter=lambda block: block.name_hint == "B"), two_stages())
    assert rule.seen == ["B"]


def test_blocks_need_names_of_their_own() -> None:
    twice = two_stages(TWO_STAGES.replace('T.block("C")', 'T.block("B")'))
    with pytest.raises(TuningError, match="two blocks called 'B'"):
        generate(rules_only(Mark("x")), twice)


@register_custom_rule("meta_schedule.cpu.test_vectorize_it")
def vectorize_it(sch: Schedule, block: BlockRV) -> list[Schedule]:
    sch.vectorize(sch.get_loops(block)[0])
    return [sch]


def test_a_block_with_a_rule_of_its_own_is_left_to_that() -> None:
    text = TWO_STAGES.replace(
        "            C[vi] =",
        '            T.block_attr({"schedule_rule": "test_vectorize_it"})\n            C[vi] =',
    )
    rule = Mark("x")
    (sch,) = generate(rules_only(ApplyCustomRule(), rule), two_stages(text))
    assert "C" not in rule.seen
    assert [inst.kind.name for inst in sch.trace.simplified(True).insts][-1] == "Vectorize"


def test_spaces_are_reproducible() -> None:
    traces = [[str(s.trace) for s in generate(PostOrderApply(), Matmul)] for _ in range(2)]
    assert traces[0] == traces[1]


# ------------------------------------------------------------------------------- functions and unions


@pytest.mark.parametrize(
    ("result", "count"),
    [
        (lambda sch: None, 1),
        (lambda sch: sch, 1),
        (lambda sch: [sch, sch.copy()], 2),
    ],
    ids=["none", "schedule", "list"],
)
def test_what_a_schedule_function_returns(result: Any, count: int) -> None:
    assert len(generate(ScheduleFn(result), Matmul)) == count


def test_a_schedule_function_that_returns_something_else() -> None:
    with pytest.raises(IRTypeError, match="returned int"):
        generate(ScheduleFn(lambda sch: 1), Matmul)


def test_a_union_concatenates() -> None:
    union = SpaceGeneratorUnion([ScheduleFn(split_j), PostOrderApply()])
    first, *rest = generate(union, Matmul)
    assert "DecomposeReduction" in [inst.kind.name for inst in first.trace.insts]
    assert len(rest) == 3
    assert union.postprocs, "its own, from the target"


def test_clones_share_nothing() -> None:
    mark = Mark("x")
    generator = SpaceGeneratorUnion([rules_only(mark)], postprocs=[DisallowDynamicLoop()])
    twin = generator.clone()
    generate(generator, two_stages())
    generate(twin, two_stages())
    (other,) = twin.space_generators[0].sch_rules
    assert other is not mark
    assert twin.postprocs[0] is not generator.postprocs[0]
    assert twin.space_generators[0] is not generator.space_generators[0]


# ---------------------------------------------------------------------------------------- short names


def test_short_names() -> None:
    assert isinstance(SpaceGenerator.create("post-order-apply"), PostOrderApply)
    assert isinstance(SpaceGenerator.create("union", []), SpaceGeneratorUnion)
    assert isinstance(SpaceGenerator.create("avx512"), PostOrderApply)
    with pytest.raises(IRValueError, match="post-order-apply"):
        SpaceGenerator.create("no-such-space")


def test_a_bare_function_has_no_rules_postprocessors_or_mutators() -> None:
    task = ms.TuneContext(Matmul, target="llvm -num-cores=2", space_generator=split_j)
    space = task.space_generator
    assert isinstance(space, ScheduleFn)
    assert not space.postprocs
    assert not space.mutator_probs
    task = ms.TuneContext(Matmul, target="llvm -num-cores=2", space_generator=ScheduleFn(split_j))
    assert task.space_generator is not None
    assert task.space_generator.postprocs, "said in full, it gets those of the target"


def test_a_function_without_parameters_makes_a_generator() -> None:
    assert isinstance(SpaceGenerator.create(lambda: ScheduleFn(split_j)), ScheduleFn)


def test_without_a_target_there_are_no_presets() -> None:
    task = ms.TuneContext(Matmul, space_generator="post-order-apply")
    assert len(task.generate_design_space()) == 1


# ------------------------------------------------------------------------ classes in place of parts


def test_a_class_stands_for_an_instance_of_it() -> None:
    task = ms.TuneContext(
        Matmul,
        target="llvm -num-cores=2",
        space_generator=PostOrderApply,
        search_strategy=EvolutionarySearch,
    )
    assert isinstance(task.space_generator, PostOrderApply)
    assert isinstance(task.search_strategy, EvolutionarySearch)
    assert isinstance(ms.Runner.create(LocalRunner), LocalRunner)
    assert isinstance(ms.Database.create(MemoryDatabase), MemoryDatabase)
    assert isinstance(ms.CostModel.create(RandomModel), RandomModel)
    assert isinstance(SpaceGeneratorUnion([PostOrderApply]).space_generators[0], PostOrderApply)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: SpaceGenerator.create(ScheduleFn),
            "missing a required argument: 'sch_fn', it takes",
        ),
        (lambda: SpaceGenerator.create(AutoInline), "class AutoInline: it is not a subclass of"),
        (lambda: ms.Runner.create(ms.Runner), "class Runner: it is abstract"),
        (
            lambda: ms.Runner.create(MemoryDatabase),
            "class MemoryDatabase: it is not a subclass of Runner",
        ),
        (lambda: ms.Builder.create(3), "named by a short string, got int: 3"),
        (
            lambda: PostOrderApply(sch_rules=AutoInline),
            "list of instances of ScheduleRule, got the",
        ),
        (lambda: PostOrderApply(sch_rules=[AutoInline]), r"give an instance, AutoInline\(\.\.\.\)"),
        (lambda: PostOrderApply(postprocs=[Mark("x")]), "which is not a Postproc$"),
        (lambda: PostOrderApply(mutator_probs=[]), "maps mutators to weights"),
        (lambda: PostOrderApply(mutator_probs={MutateUnroll: 1.0}), "holds the class MutateUnroll"),
        (lambda: ms.MeasureCallback.create([AddToDatabase]), "holds the class AddToDatabase"),
    ],
)
def test_what_is_no_part_is_refused_at_once(make: Any, words: str) -> None:
    with pytest.raises(IRValueError, match=words):
        make()
