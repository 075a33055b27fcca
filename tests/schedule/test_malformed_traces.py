"""Whatever becomes of a saved trace, reading and replaying it succeeds or says what is wrong.

Lines `changed(seed)` of `python -m benchmarks.fuzz schedules` try more of these.
"""

from __future__ import annotations

import json
import random

import pytest

from benchmarks.fuzz.programs import program
from benchmarks.fuzz.schedules import changed
from schedule import Schedule, ScheduleError, Trace, TraceError


def recorded() -> tuple[str, str]:
    """Return the name of a program and a trace that has operands of nearly every kind."""
    sch = Schedule(program("chain"), seed=3)
    b, c, d = (sch.get_block(name) for name in "BCD")
    i, j = sch.get_loops(d)
    tile = sch.sample_perfect_tile(j, 2, 4)
    outer, inner = sch.split(j, tile)
    width = sch.sample_categorical([1, 2, 4], [0.5, 0.25, 0.25])
    sch.annotate(outer, "note", {"width": [width, 2.5, "text"], "flag": True})
    sch.transform_layout(c, ("write", 0), lambda i, j: (j, i))
    sch.transform_block_layout(b, lambda i, j: (i * 6 + j,))
    copy = sch.cache_read(d, 0, "local", consumer_blocks=[d])
    sch.compute_at(copy, i)
    sch.compute_at(c, sch.sample_compute_location(c))
    sch.enter_postproc()
    sch.parallel(i)
    sch.vectorize(inner)
    return "chain", json.dumps(sch.trace.as_json())


NAME, STORED = recorded()


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_a_changed_trace(start):
    for seed in range(start, start + 100):
        data = changed(json.loads(STORED), random.Random(seed))
        sch = Schedule(program(NAME), seed=1, error_render_level="fast")
        try:
            trace = Trace.from_json(data)
        except TraceError as error:
            message = str(error)
            assert message
            continue
        before = len(trace.insts)
        try:
            trace.apply_to_schedule(sch, remove_postproc=False)
        except (TraceError, ScheduleError) as error:
            message = str(error)
            assert message
        else:
            assert len(sch.trace.insts) == before
        sch.state.verify()


@pytest.mark.parametrize(
    "text",
    ["", "[", "[" * 100_000, "[[], [[0, " + "1" * 5000 + "]]]", "nan", '{"a": 1}', "\0", "\ud800"],
    ids=["empty", "cut", "deep", "long number", "word", "object", "zero", "surrogate"],
)
def test_text_that_is_no_trace(text, tmp_path):
    with pytest.raises(TraceError):
        Trace.from_json(text)
    path = tmp_path / "trace.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(TraceError, match=r"trace\.json"):
        Trace.load(path)


PAD, CONV = "PadInput", "conv2d_nhwc"
ONCE_FAILED = {
    "a split by something else than a whole number": (
        [
            ["GetBlock", [], [CONV, "main"], ["b0"]],
            ["GetLoops", ["b0"], [], [f"l{k}" for k in range(7)]],
        ],
        ["Split", ["l1", 1.5, "None"], [1, 0], ["l7", "l8"]],
    ),
    "a lookup without the name of a function": ([], ["GetBlock", [], [CONV, None], ["b0"]]),
    "an index map that is a number": (
        [["GetBlock", [], [PAD, "main"], ["b0"]]],
        ["TransformLayout", ["b0", 7], [0, 1, None, 0], []],
    ),
    "a call on a list instead of a block": ([], ["CacheIndex", [[]], ["global", 2], []]),
    "a pad value that is a bare number": (
        [["GetBlock", [], [PAD, "main"], ["b0"]]],
        ["TransformLayout", ["b0", "lambda a, b, c, d: (b, c, d, a)"], [0, 1, 5, 0], []],
    ),
}


@pytest.mark.parametrize(("before", "malformed"), ONCE_FAILED.values(), ids=ONCE_FAILED)
def test_a_malformed_instruction_is_refused(before, malformed):
    sch = Schedule(program("C2D-0"), seed=1)
    with pytest.raises((TraceError, ScheduleError)):
        Trace.apply_json_to_schedule([[*before, malformed], []], sch)
