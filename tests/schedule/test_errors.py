"""What is refused says so in a sentence, shows the place, and changes nothing."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import schedule
from schedule import Schedule, ScheduleError, Trace
from schedule.errors import Problem
from tensorir import parse
from tests.matmul import matmul

MATMUL = matmul(16, 16, 16)


@pytest.fixture
def matmul():
    sch = Schedule(parse(MATMUL), debug_mask="all")
    block = sch.get_block("C")
    return sch, block, sch.get_loops(block)


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda s, b, ls: s.get_block("D"), "NotSingleResult", "root, C"),
        (
            lambda s, b, ls: s.split(ls[0], [3, 3]),
            "WrongFactorError",
            "9, is smaller than the extent 16",
        ),
        (lambda s, b, ls: s.split(ls[0], [None, None]), "NotSingleInferFactorError", "2 are"),
        (lambda s, b, ls: s.split(ls[0], [4, 0]), "NonPositiveFactorError", "factor 1 is 0"),
        (lambda s, b, ls: s.fuse(ls[0], ls[2]), "OuterNotInnerParent", "not the parent"),
        (lambda s, b, ls: s.reorder(ls[0], ls[0]), "LoopMultiAppearanceError", "multiple times"),
        (lambda s, b, ls: s.vectorize(ls[2]), "WrongBlockIterTypeError", "axis vk"),
        (
            lambda s, b, ls: s.decompose_reduction(b, ls[0]) and s.decompose_reduction(b, ls[0]),
            "NotReductionBlockError",
            "condition #1",
        ),
        (lambda s, b, ls: s.compute_inline(b), "HasInitBlock", "init statement"),
        (lambda s, b, ls: s.cache_read(b, 7, "local"), "BufferIndexOutOfRangeError", "2 read"),
        (lambda s, b, ls: s.cache_read(b, 0, "nowhere"), "InvalidStorageScopeError", "nowhere"),
        (lambda s, b, ls: s.unannotate(b, "x"), "AnnotationKeyError", "'x'"),
    ],
)
def test_refused_calls(matmul, call, code, words):
    sch, block, loops = matmul
    with pytest.raises(ScheduleError) as caught:
        call(sch, block, loops)
    assert caught.value.code == code
    text = str(caught.value)
    assert words in text
    assert text.splitlines()[0].endswith(f" [{code}]")
    assert '        with T.block("C"):\n' in text or "^^^" in text
    assert text.endswith("The schedule is unchanged.")


def test_the_place_is_marked_in_the_program_as_it_is_printed(matmul):
    sch, _, loops = matmul
    with pytest.raises(ScheduleError) as caught:
        sch.vectorize(loops[2])
    lines = str(caught.value).splitlines()
    nest = lines.index("        for i, j, k in T.grid(16, 16, 16):")
    assert lines[nest + 1] == "                  ^"
    assert lines[nest + 2 : nest + 4] == [
        '            with T.block("C"):',
        "            ^^^^^^^^^^^^^^^^^^",
    ]


def test_nothing_is_written_that_nobody_reads(matmul, monkeypatch):
    sch, _, loops = matmul

    def written(*_args, **_options):
        raise AssertionError("an error was put into words")

    monkeypatch.setattr("schedule.errors.describe", written)
    monkeypatch.setattr("tensorir.function.IRModule.script", written)
    with pytest.raises(ScheduleError) as caught:
        sch.vectorize(loops[2])
    assert caught.value.code == "WrongBlockIterTypeError"


def test_a_consumed_handle_names_the_primitive(matmul):
    sch, _, loops = matmul
    sch.split(loops[0], [4, 4])
    with pytest.raises(ScheduleError, match="split replaced it") as caught:
        sch.unroll(loops[0])
    assert isinstance(caught.value, ValueError)


def test_a_handle_of_another_schedule_is_refused(matmul):
    _, _, loops = matmul
    other = Schedule(parse(MATMUL))
    with pytest.raises(ScheduleError, match=r"does not belong to this schedule") as caught:
        other.unroll(loops[0])
    assert isinstance(caught.value, IndexError)


def test_truncated_trace_file_names_file_and_line(matmul, tmp_path):
    sch, _, loops = matmul
    sch.split(loops[0], [4, 4])
    path = tmp_path / "trace.json"
    sch.trace.save(path)
    assert str(Trace.load(path)) == str(sch.trace)
    path.write_text(path.read_text()[:60])
    with pytest.raises(ValueError, match=r"trace\.json:\d+:\d+: not a saved trace"):
        Trace.load(path)


def declared_problems() -> dict[str, Problem]:
    """Return what any module of the package declares, by module and name."""
    modules = pkgutil.walk_packages(schedule.__path__, "schedule.")
    return {
        f"{found.name}.{name}": value
        for found in modules
        for name, value in vars(importlib.import_module(found.name)).items()
        if isinstance(value, Problem)
    }


def test_every_problem_has_a_remedy():
    problems = declared_problems()
    assert len(problems) > 150
    for name, problem in problems.items():
        assert problem.hint.strip(), f"{name} says what is wrong, but not what to do"
        assert not problem.hint.endswith("."), name
