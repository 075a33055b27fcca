"""What a person asks of a search: how long, which schedules first, which not at all."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import search as ms
from schedule import Schedule
from schedule.random_state import RandomState
from search.database import JSONDatabase, MemoryDatabase, TuningRecord
from search.database.line_store import EnergyLog
from search.mutator import MutateTileSize
from search.reports.run_directory import load_run
from search.run import TimeBudget
from search.runner import RunnerInput, RunnerResult
from search.runner.time_call import EnergyMeter, energy_refusal, joules_per_call
from search.runs.run_journal import plan_of
from search.space_generator import ScheduleFn
from search.space_generator.restricted_space import ConstrainedSpace, Constraint
from tensorir import IRModule, IRTypeError, T
from tests.search.compatible_programs import product
from tests.search.made_up_runs import TARGET, UNSCHEDULED, ScriptFiles, TimesOfScripts
from tests.search.programs import Matmul, adds_one, split_all, split_j


@T.prim_func
def two_stages(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8), "float32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)


I0, J0, K0 = (f"tile of loop {k} of C" for k in range(3))
"""What `split_all` decides."""
Both = IRModule({"matmul": Matmul["main"], "add": adds_one})
SIX = ms.TuneConfig(6, num_trials_per_iter=3, num_confirmed=0)


def parts(folder: Path, **others: Any) -> dict[str, Any]:
    return {
        "builder": ScriptFiles(folder / "artifacts"),
        "runner": TimesOfScripts(),
        "cost_model": "random",
        "seed": 1,
        **others,
    }


def tune(folder: Path, config: ms.TuneConfig = SIX, **others: Any) -> Schedule | None:
    options = parts(folder, **{"space": split_all, **others})
    return ms.tune_tir(Matmul, TARGET, config, folder, **options)


def tried(folder: Path) -> list[Mapping[str, Any]]:
    records = JSONDatabase(work_dir=folder).get_all_tuning_records()
    return [ms.decisions_of(record) for record in records]


# ------------------------------------------------------------------------------------ time


class Clock:
    """Stands still but for measurements, of which each takes a tenth of a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


class Waits(TimesOfScripts):
    def __init__(self, clock: Clock, seconds: float = 0.1) -> None:
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def _result(self, entry: RunnerInput) -> RunnerResult:
        self.clock.now += self.seconds
        return replace(super()._result(entry), seconds=self.seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in ("search.run", "search.loop"):
        monkeypatch.setattr(f"{module}.time", made)
    return made


def test_a_search_ends_when_its_seconds_are_over(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    options = parts(tmp_path, runner=Waits(clock))
    ms.tune_module(Matmul, TARGET, tmp_path, max_seconds=2.0, space=split_all, **options)
    assert len(load_run(tmp_path)) == 16, (
        "a tenth is kept for the best and a twentieth for the report; none begins that would not end"
    )
    assert "The search stops: its 2 seconds are over; the best candidates are measured again" in (
        capsys.readouterr().err
    )


def test_without_time_to_measure_them_again_the_best_of_the_search_stay(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path, ms.TuneConfig(max_seconds=0.5), runner=Waits(clock, 0.6)) is not None
    assert len(load_run(tmp_path)) == 1
    assert "Time was too short to measure the best of 1 task(s) again" in capsys.readouterr().err


def test_the_last_task_has_all_the_time_that_is_left(clock: Clock) -> None:
    budget = TimeBudget(100.0, 4, is_confirmed=True, began=0.0)
    reports = budget.left - 4 * budget.for_winner_number(0)
    assert 0 < reports < 20
    clock.now = 60.0
    assert budget.for_winner_number(3) == pytest.approx(40.0 - reports / 4)


# --------------------------------------------------------------------------------- options


def test_every_entry_point_lists_its_options() -> None:
    for function in (ms.tune_tir, ms.tune_module, ms.tune_tasks, ms.tune_model):
        listed = inspect.signature(function).parameters
        assert {"builder", "runner", "database", "cost_model", "on_interrupt"} <= set(listed)
        assert listed["runner"].default == (None if function is ms.tune_tir else "local")
        if function is not ms.tune_tasks:
            assert {"input_data", "initial_schedules", "constraint", "seed"} <= set(listed)


def test_an_unknown_option_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    place = tmp_path / "tuned"
    for function in (ms.tune_module, ms.tune_model):
        with pytest.raises(IRTypeError, match=r"no option 'verbos'; did you mean 'verbose'\?"):
            function(Matmul, TARGET, work_dir=place, max_trials_global=1, verbos=0)
    assert not place.exists()


# ------------------------------------------------------------------------------ constraints


def test_only_schedules_that_a_constraint_allows_are_tried(tmp_path: Path) -> None:
    def allowed(decisions: Mapping[str, Any]) -> bool:
        return decisions[I0][-1] == 4 and decisions[J0][-1] * decisions[K0][-1] <= 32

    best = tune(tmp_path, constraint=allowed)
    assert best is not None
    assert allowed(ms.decisions_of(best))
    assert [allowed(decisions) for decisions in tried(tmp_path)] == [True] * 6


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", "replay-func"])
def test_each_strategy_asks_the_constraint_before_it_builds(tmp_path: Path, strategy: str) -> None:
    config = ms.TuneConfig(6, 3, strategy=strategy, num_confirmed=0)
    builder = ScriptFiles(tmp_path / "artifacts")
    tune(tmp_path, config, builder=builder, constraint=lambda d: d[J0][0] == 2)
    assert {decisions[J0][0] for decisions in tried(tmp_path)} == {2}
    assert builder.count == 7, "with the unscheduled program"


def test_with_a_trained_model_every_generation_satisfies_the_constraint(tmp_path: Path) -> None:
    config = ms.TuneConfig(12, 4, num_confirmed=0)
    tune(tmp_path, config, cost_model="xgb", constraint=lambda d: d[I0][1] == 1)
    assert {decisions[I0][1] for decisions in tried(tmp_path)} == {1}


def test_points_are_found_of_which_there_are_few(tmp_path: Path) -> None:
    """One of 8,000."""
    wanted = {I0: (4, 4, 2), J0: (1, 16, 2), K0: (8, 2, 2)}
    best = tune(tmp_path, constraint=lambda decisions: decisions == wanted)
    assert best is not None
    assert ms.decisions_of(best) == wanted
    assert len(tried(tmp_path)) == 1


def test_rare_points_of_a_large_space_are_reached_by_steps() -> None:
    wide = product(128, 128, 128)
    (space,) = ms.design_spaces(wide, TARGET, split_all)
    assert space.num_points > 10_000
    constraint = Constraint(lambda decisions: decisions[I0][0] == 128 and decisions[J0][0] == 128)
    part = ConstrainedSpace(space, constraint)
    rng = RandomState(1)
    points = {part.sample(rng) for _ in range(50)}
    assert len(points) > 10
    assert {(point[0][0], point[1][0]) for point in points} == {(128, 128)}


def test_neighbours_of_an_allowed_point_are_allowed() -> None:
    (space,) = ms.design_spaces(Matmul, TARGET, split_all)
    part = ConstrainedSpace(space, Constraint(lambda decisions: decisions[I0][0] <= 2))
    rng = RandomState(1)
    points = [part.neighbour(part.sample(rng), rng) for _ in range(50)]
    assert all(point is None or point[0][0] <= 2 for point in points)
    assert len(set(points)) > 10


def test_a_constraint_that_refuses_all_is_named_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(ms.TuningError, match=r"constraint \(test_steering.* refuses all points"):
        tune(tmp_path, constraint=lambda decisions: False)


def test_what_is_known_from_before_satisfies_the_constraint_or_is_not_returned(
    tmp_path: Path,
) -> None:
    tune(tmp_path, ms.TuneConfig(12, num_confirmed=0))
    known = tried(tmp_path)
    inner = known[0][I0][-1]
    best = tune(tmp_path, SIX, constraint=lambda d: d[I0][-1] != inner)
    assert best is not None
    assert ms.decisions_of(best)[I0][-1] != inner


def test_the_default_schedule_satisfies_a_constraint() -> None:
    before = ms.decisions_of(ms.default_schedule(Matmul, TARGET))
    name = next(name for name, value in before.items() if name.startswith("tile"))
    after = ms.default_schedule(Matmul, TARGET, constraint=lambda d: d[name] != before[name])
    assert ms.decisions_of(after)[name] != before[name]


def test_functions_of_a_module_have_their_own_constraints(tmp_path: Path) -> None:
    ms.tune_module(
        Both,
        TARGET,
        tmp_path,
        6,
        special_space={"add": None},
        space=split_j,
        constraint={"matmul": lambda d: d["tile of loop 1 of C"][1] > 4},
        **parts(tmp_path),
    )
    assert {decisions["tile of loop 1 of C"][1] for decisions in tried(tmp_path)} == {8, 16}


def test_a_run_with_another_wish_is_another_run() -> None:
    """The same one goes on where it was interrupted; a function counts by what it does."""

    def at_most(limit: int) -> Any:
        return lambda decisions: decisions[I0][0] <= limit

    def plan(**wishes: Any) -> dict[str, Any]:
        task = ms.TuneContext(
            Matmul, target=TARGET, space_generator=split_all, search_strategy="replay-trace",
            rand_state=1, **wishes,
        )  # fmt: skip
        return plan_of([task], [task.generate_design_space()], SIX, None)

    assert plan(constraint=at_most(4)) == plan(constraint=at_most(4))
    assert plan(constraint=at_most(4)) != plan(constraint=at_most(8))
    assert plan(objective="p90") != plan()
    known = by_hand(Schedule(Matmul))
    assert plan(initial_schedules=known) != plan()


# -------------------------------------------------------------------------- what is named


def test_decisions_have_the_names_of_the_tables(tmp_path: Path) -> None:
    sch = split_all(Schedule(Matmul, seed=1))
    decisions = ms.decisions_of(sch)
    assert list(decisions) == [I0, J0, K0]
    assert all(isinstance(value, tuple) and len(value) == 3 for value in decisions.values())
    assert str(decisions).splitlines()[0].split("  ")[0] == I0


@pytest.mark.parametrize("keeps_domains", [True, False])
def test_a_place_has_the_same_name_in_candidates_and_in_spaces(keeps_domains: bool) -> None:
    sch = Schedule(two_stages, seed=1)
    sch.keeps_domains = keeps_domains
    block = sch.get_block("B")
    sch.compute_at(block, sch.sample_compute_location(block, decision=0))
    assert ms.decisions_of(sch) == {"location of B": "loop 0"}


# ------------------------------------------------------------------------------ objectives


def slow_now_and_then(place: int) -> RunnerResult:
    """Odd trials are faster in most calls, and much slower in one of five."""
    usual, worst = (1e-3, 1e-3) if place % 2 == 0 else (0.5e-3, 9e-3)
    usual *= 1 + place / 1000
    return RunnerResult((*[usual] * 16, *[worst] * 4))


@pytest.mark.parametrize(
    ("objective", "parity", "confirmed"),
    [("p50", 1, 0), ("p90", 0, 4), ("p10", 1, 4), (max, 0, 0), (lambda times: sum(times), 0, 4)],
)
def test_the_winner_is_the_best_by_the_objective(
    tmp_path: Path, objective: Any, parity: int, confirmed: int
) -> None:
    measured: list[str] = []

    class Named(TimesOfScripts):
        """The time of a program is that of its first trial."""

        def _result(self, entry: RunnerInput) -> RunnerResult:
            text = Path(entry.artifact_path).read_text()
            if UNSCHEDULED.search(text.encode()):
                return RunnerResult((10e-3,) * 20)
            if text not in measured:
                measured.append(text)
            return slow_now_and_then(measured.index(text))

    config = ms.TuneConfig(6, 3, num_confirmed=confirmed)
    best = tune(tmp_path, config, runner=Named(), objective=objective)
    assert best is not None
    assert measured.index(best.mod.script()) == parity
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    stored = {seconds for r in records if r.schedules for seconds in r.run_secs or ()}
    assert stored <= {s for k in range(6) for s in slow_now_and_then(k).run_secs or ()}, "seconds"


def test_strategy_and_model_see_what_the_objective_makes_of_times(tmp_path: Path) -> None:
    seen: list[tuple[float, ...] | None] = []

    class Watches(ms.cost_model.RandomModel):
        def update(self, context: object, candidates: object, results: Any) -> None:
            seen.extend(result.run_secs for result in results)

    runner = TimesOfScripts(lambda k: RunnerResult((1e-3, 2e-3, 6e-3)))
    tune(tmp_path, runner=runner, cost_model=Watches(), objective=lambda times: max(times) * 10)
    assert seen == [(0.06,)] * 6
    assert {t.run_secs for t in load_run(tmp_path).trials} == {(1e-3, 2e-3, 6e-3)}


def test_no_candidate_is_ended_early_whose_objective_may_be_the_best(tmp_path: Path) -> None:
    bounds: list[float | None] = []

    class Bounds(TimesOfScripts):
        def _result(self, entry: RunnerInput) -> RunnerResult:
            bounds.append(entry.best_seconds)
            return RunnerResult((1e-3,) * 12)

    tune(tmp_path / "a", runner=Bounds(), objective="p90")
    assert bounds == [None, *[1e-3] * 5]
    bounds.clear()
    tune(tmp_path / "b", runner=Bounds(), objective=min)
    assert bounds == [None] * 6


def test_for_a_percentile_calls_are_timed_one_by_one(
    tmp_path: Path, measured: dict[str, Any]
) -> None:
    config = ms.TuneConfig(1, num_confirmed=0, builder=measured["builder"])
    ms.tune_tir(Matmul, TARGET, config, tmp_path, space=split_j, objective="p95", seed=1)
    (trial,) = load_run(tmp_path).trials
    assert len(trial.run_secs) == 64


class Joules(TimesOfScripts):
    """The later a program comes, the slower it is, and the less energy it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def _result(self, entry: RunnerInput) -> RunnerResult:
        text = Path(entry.artifact_path).read_text()
        if text not in self.seen:
            self.seen.append(text)
        place = self.seen.index(text)
        return RunnerResult(((1 + place) * 1e-3,), joules=1 / (1 + place))


@pytest.mark.parametrize("confirmed", [0, 4])
def test_the_winner_takes_the_least_energy(tmp_path: Path, confirmed: int) -> None:
    runner = Joules()
    config = ms.TuneConfig(6, 3, num_confirmed=confirmed)
    best = tune(tmp_path, config, runner=runner, objective="energy")
    assert best is not None
    last = runner.seen[6 if confirmed else 5]
    assert best.mod.script() == last, "the unscheduled program, or the last of the trials"
    kept = EnergyLog(tmp_path)
    for record in JSONDatabase(work_dir=tmp_path).get_all_tuning_records():
        assert kept.joules(record.run_secs or ()) == pytest.approx(1e-3 / record.mean_seconds)
    known = len(runner.seen)
    again = tune(tmp_path, ms.TuneConfig(1, num_confirmed=0), runner=runner, objective="energy")
    assert again is not None
    assert again.mod.script() == runner.seen[-1], "records of before have their energy"
    assert len(runner.seen) == known + 1


def test_energy_is_counted_by_the_processors(tmp_path: Path) -> None:
    counters = []
    for number, start in enumerate((500, 999_000_000)):
        zone = tmp_path / f"intel-rapl:{number}"
        zone.mkdir()
        (zone / "max_energy_range_uj").write_text("1000000000\n")
        (zone / "energy_uj").write_text(f"{start}\n")
        counters.append(zone / "energy_uj")
    (tmp_path / "intel-rapl:0:0").mkdir()  # the cores, which the first has counted

    class Call:
        """Takes 10 mJ on each processor."""

        def time(self, count: int) -> None:
            for counter in counters:
                spent = int(counter.read_text()) + 10_000 * count
                counter.write_text(f"{spent % 1_000_000_000}\n")

    meter = EnergyMeter(tmp_path)
    assert joules_per_call(Call(), 1e-3, meter) == pytest.approx(0.02)
    assert int(counters[1].read_text()) < 999_000_000, "it has begun anew"


def test_where_energy_cannot_be_read_the_search_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "search.runner.time_call.energy_refusal", lambda root: energy_refusal(tmp_path / "none")
    )
    config = ms.TuneConfig(1)
    with pytest.raises(ms.TuningError, match=r"cannot be measured: the counter .*virtual"):
        ms.tune_tir(Matmul, TARGET, config, tmp_path, space=split_j, objective="energy")
    assert not (tmp_path / "tuning_trials.json").exists()
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "energy_uj").mkdir()  # which even an administrator cannot read
    assert "cannot be read: Is a directory; an administrator may allow it" in str(
        energy_refusal(tmp_path)
    )
    with pytest.raises(ms.TuningError, match=r"needs a runner that measures it: give it an Evalua"):
        tune(tmp_path / "other", objective="energy")


def test_tasks_of_a_run_have_one_objective(tmp_path: Path) -> None:
    both = ms.tune_module(
        Both, TARGET, tmp_path, 4, special_space={"add": None}, space=split_j,
        runner=TimesOfScripts(slow_now_and_then), objective="p90",
        builder=ScriptFiles(tmp_path / "artifacts"), cost_model="random",
    )  # fmt: skip
    assert len(both) >= 4
    tasks = [
        ms.TuneContext(
            Matmul,
            target=TARGET,
            space_generator=split_j,
            search_strategy="replay-trace",
            objective=objective,
        )
        for objective in ("p90", "p95")
    ]
    with pytest.raises(ms.TuningError, match='task "main" has the objective p95, another task'):
        ms.tune_tasks(tasks=tasks, task_weights=[1.0, 1.0], work_dir=tmp_path, max_trials_global=2)


# ------------------------------------------------------------------------ initial schedules


def by_hand(sch: Schedule) -> Schedule:
    """No point of `split_all`: what is sampled there is written down."""
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(j, factors=[8, 4])
    sch.reorder(i, outer, k, inner)
    sch.vectorize(inner)
    return sch


@pytest.mark.parametrize(
    ("form", "strategy"),
    [
        ("schedule", "replay-trace"),
        ("trace", "evolutionary"),
        ("json", "evolutionary"),
        ("record", "evolutionary"),
    ],
)
def test_schedules_that_are_known_are_measured_first(
    tmp_path: Path, form: str, strategy: str
) -> None:
    known = by_hand(Schedule(Matmul))
    database = MemoryDatabase()
    forms = {
        "schedule": lambda: known,
        "trace": lambda: known.trace,
        "json": lambda: TuningRecord(known.trace, database.commit_workload(Matmul)).trace_text,
        "record": lambda: TuningRecord(known.trace, database.commit_workload(Matmul), [1.0]),
    }
    config = ms.TuneConfig(6, 3, strategy=strategy, num_confirmed=0)
    tune(tmp_path, config, initial_schedules=[forms[form]()])
    first, *rest = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert str(first.trace) == str(known.trace), "as it was given, without postprocessing"
    assert len(rest) == 5
    assert load_run(tmp_path).trials[0].space is None


def test_a_point_of_the_space_is_completed_as_any_other(tmp_path: Path) -> None:
    known = split_all(Schedule(Matmul, seed=7))
    tune(tmp_path, initial_schedules=known)
    trials = load_run(tmp_path).trials
    assert trials[0].space == 0
    assert [tuple(d) for d in trials[0].decisions] == list(ms.decisions_of(known).values())


def test_what_was_measured_before_is_not_measured_again(tmp_path: Path) -> None:
    known = by_hand(Schedule(Matmul))
    tune(tmp_path, initial_schedules=known)
    tune(tmp_path, ms.TuneConfig(3, num_confirmed=0), initial_schedules=[known, known])
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert [str(record.trace) for record in records].count(str(known.trace)) == 1
    assert len(records) == 9


def test_the_search_breeds_from_what_it_was_given(tmp_path: Path) -> None:
    """The given point is the fastest by far; steps lead away from it, and nothing else is near."""
    known = split_all(Schedule(Matmul, seed=7))
    runner = TimesOfScripts(lambda k: RunnerResult((1e-9,)) if k == 0 else None)
    config = ms.TuneConfig(13, 4, num_confirmed=0)
    steps = {MutateTileSize(): 1.0}
    space = ScheduleFn(split_all, sch_rules=[], postprocs=[], mutator_probs=steps)
    tune(tmp_path, config, runner=runner, space=space, initial_schedules=known)
    given, *others = (list(decisions.values()) for decisions in tried(tmp_path))
    common = [sum(a == b for a, b in zip(given, other, strict=True)) for other in others]
    assert max(common) == 2


def test_a_schedule_of_a_function_by_its_own_name_is_one_of_the_task(tmp_path: Path) -> None:
    sch = Schedule(Both)
    block = sch.get_block("C", "matmul")
    sch.parallel(sch.get_loops(block)[0])
    ms.tune_module(
        Both,
        TARGET,
        tmp_path,
        2,
        special_space={"add": None},
        space=split_j,
        initial_schedules={"matmul": [sch]},
        **parts(tmp_path),
    )
    first = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()[0]
    assert "parallel" in str(first.trace)


def test_a_constraint_is_for_points_of_the_space(tmp_path: Path) -> None:
    """It refuses a point that is given, and does not ask about a schedule of no space."""
    point = split_all(Schedule(Matmul, seed=7))
    inner = ms.decisions_of(point)[I0][-1]
    with pytest.raises(ms.TuningError, match=r"initial_schedules\[0\] is refused by the constrain"):
        tune(tmp_path, initial_schedules=point, constraint=lambda d: d[I0][-1] != inner)
    runner = TimesOfScripts(lambda k: RunnerResult((1e-9,)) if k == 0 else None)
    best = tune(
        tmp_path,
        runner=runner,
        initial_schedules=by_hand(Schedule(Matmul)),
        constraint=lambda d: d[I0][-1] != inner,
    )
    assert best is not None
    assert str(best.trace) == str(by_hand(Schedule(Matmul)).trace)
