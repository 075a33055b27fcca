"""Sketch policies: parameters, the steps of a search, and user-defined rules."""

import pytest

import search as ms
from schedule import Schedule
from search.compat.auto_scheduler import (
    PreloadCustomSketchRule,
    SketchPolicy,
    XGBModel,
)
from search.schedule_rule import MultiLevelTiling, ParallelizeVectorizeUnroll
from tensorir.errors import IRValueError
from tests.search.compat.auto_scheduler.workloads import TARGET, made_up, task_of


def policy(*callbacks, **options):
    """Return a reproducible policy for four cores."""
    task = task_of("demo_mm", 64, 64, 64)
    return SketchPolicy(task, seed=1, init_search_callbacks=callbacks, **options)


# ------------------------------------------------------------------------------------- parameters


def test_parameters_reach_the_parts_that_they_are_about():
    made = policy(
        params={
            "eps_greedy": 0.1,
            "sample_init_min_population": 7,
            "sample_init_use_measured_ratio": 0.5,
            "evolutionary_search_population": 128,
            "evolutionary_search_num_iters": 2,
            "evolutionary_search_mutation_prob": 0.6,
            "cpu_multi_level_tiling_structure": "SRS",
            "max_innermost_split_factor": 16,
            "max_vectorize_size": 8,
            "disable_change_compute_location": 1,
        }
    )
    strategy = made.context().search_strategy
    assert (strategy.eps_greedy, strategy.init_min_unmeasured) == (0.1, 7)
    assert (strategy.init_measured_ratio, strategy.population_size) == (0.5, 128)
    assert (strategy.genetic_num_iters, strategy.genetic_mutate_prob) == (2, 0.6)
    rules = made.context().space_generator.sch_rules
    (tiling,) = [rule for rule in rules if type(rule) is MultiLevelTiling]
    assert (tiling.structure, tiling.max_innermost_factor) == ("SRS", 16)
    (marks,) = [rule for rule in rules if isinstance(rule, ParallelizeVectorizeUnroll)]
    assert marks.max_vectorize_extent == 8
    assert "RandomComputeLocation()" not in map(str, rules)


def test_parameters_are_checked():
    with pytest.raises(ms.TuningError, match="unknown sketch policy parameter 'eps_greed'; expe"):
        policy(params={"eps_greed": 0.1})
    with pytest.raises(ms.TuningError, match="invalid eps_greedy 2; it is between 0 and 1"):
        policy(params={"eps_greedy": 2}).context()


# ------------------------------------------------------------------------- the steps of a search


def test_sample_and_evolve():
    made = policy(program_cost_model=XGBModel(seed=1))
    first = made.sample_initial_population()
    assert len(first) == 50
    assert len({str(sch.trace) for sch in first}) == 50
    best = made.evolutionary_search(first, 4)
    assert len(best) == 4
    assert all(isinstance(sch, Schedule) for sch in best)
    few = policy(params={"sample_init_min_population": 3}).sample_initial_population()
    assert len(few) == 3


@pytest.mark.parametrize(("option", "in_program", "at_build"), [(0, 0, 0), (1, 1, 0), (2, 1, 1)])
def test_a_search_rewrites_layouts_as_its_task_says(option, in_program, at_build):
    task = task_of("demo_packed_mm", 64, 64, 64, layout_rewrite_option=option)
    drawn = SketchPolicy(task, seed=1, params={"sample_init_min_population": 8})
    texts = [sch.mod.script() for sch in drawn.sample_initial_population()]
    assert any("B_global = T.alloc_buffer" in text for text in texts) == in_program
    assert any("layout_rewrite_preproc" in text for text in texts) == at_build


# ----------------------------------------------------------------------------- user-defined rules


def halves(_, sch, block):
    """Split the first loop of a block in two."""
    sch.split(sch.get_loops(block)[0], [2, None])
    return [[sch, None]]


def is_block(name, answer):
    return lambda _, sch, block: answer if sch.get(block).name_hint == name else 0


def first_loops(made):
    return [sketch.loops[0] for sketch in made.generate_sketches()]


def test_a_rule_that_skips_the_rest(capsys):
    """Neither tiling nor another rule is applied to the block."""
    skip_rest = PreloadCustomSketchRule.APPLY_AND_SKIP_REST
    made = policy(PreloadCustomSketchRule(is_block("C", skip_rest), halves, "halves"))
    (sketch,) = made.generate_sketches(print_for_debug=True)
    assert sketch.loops[0] == "for i_0 in 2"
    assert capsys.readouterr().out == f"{sketch}\n"
    assert [str(rule) for rule in made.custom_rules] == ["halves"]


def test_a_rule_beside_the_others():
    usual = first_loops(policy())
    both = first_loops(policy(PreloadCustomSketchRule(is_block("C", 1), halves)))
    assert sorted(both) == sorted([*usual, "for i_0 in 2"])
    assert first_loops(policy(PreloadCustomSketchRule(is_block("C", 0), halves))) == usual


def test_a_rule_after_which_others_go_on():
    def noted(asked, sch, block):
        assert isinstance(asked, SketchPolicy)
        sch.annotate(block, "seen", 1)
        return [[sch, block]]

    made = policy(PreloadCustomSketchRule(is_block("C", 2), noted))
    assert len(made.generate_sketches()) == len(policy().generate_sketches())
    assert all("PR PR SP" in " ".join(s.steps) for s in made.generate_sketches())


def test_what_a_rule_makes_is_searched(tmp_path):
    def sampled(_, sch, block):
        loop = sch.get_loops(block)[0]
        sch.split(loop, sch.sample_perfect_tile(loop, n=2))
        return [[sch, None]]

    task = task_of("demo_mm", 32, 32, 32, target=TARGET)
    made = SketchPolicy(
        task, seed=1, init_search_callbacks=[PreloadCustomSketchRule(is_block("C", 2), sampled)]
    )
    inputs, _ = made.continue_search_one_round(8, made_up(tmp_path, 0))
    tiles = {tuple(next(iter(inp.schedule().trace.decisions.values()))) for inp in inputs}
    assert {outer * inner for outer, inner in tiles} == {32}
    assert len(tiles) > 3


def test_arguments_are_checked():
    wrong = PreloadCustomSketchRule(is_block("C", 2), lambda *_: [["sch", 3]], rule_name="mine")
    with pytest.raises(ms.TuningError, match=r"mine must return \[\[schedule, next\], .* got 3"):
        policy(wrong).generate_sketches()
    with pytest.raises(ms.TuningError, match="the task of a policy is a SearchTask, got 'demo_mm"):
        SketchPolicy("demo_mm")
    with pytest.raises(IRValueError, match="init_search_callbacks is a list of instances of Sear"):
        SketchPolicy(task_of("demo_mm", 8, 8, 8), init_search_callbacks=wrong)
