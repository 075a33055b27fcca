"""The arithmetic and the bookkeeping of the benchmark of the suite."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import codegen
from benchmarks import suite
from benchmarks.peer_process import PeerError, PeerProcess, parse_answer, start_peers
from benchmarks.suite_programs import NAMES, program, random_names
from benchmarks.suite_results import PEAK, Result, Results, sparkline
from benchmarks.suite_sides import Side, Tuned, earlier
from tests import forked


def result(side, name, seed=1, tuning=0.0, kernel=0.0, **rest):
    return Result(side, name, seed, 64, tuning, kernel, **rest)


def times_of(r):
    return r.kernel


RESULTS = Results(
    ["here", "before"],
    {"cores": "2"},
    [
        result("here", "MM128", 1, 6.0, 30e-6),
        result("before", "MM128", 1, 12.0, 60e-6),
        result("here", "MM128", 2, 4.0, 40e-6),
        result("before", "MM128", 2, 8.0, 20e-6),
        result("here", "SFM", 1, 10.0, 90e-6, trial_seconds=(180e-6, 360e-6, 120e-6, 90e-6)),
        result("before", "SFM", 1, 10.0, 360e-6, trial_seconds=(360e-6,)),
        result("here", "C2D", 1, 7.0, 50e-6),
        result("before", "C2D", 1, error="no trial succeeded"),
    ],
)


# ------------------------------------------------------------------------------------- the ratios


def test_a_ratio_is_the_geometric_mean_over_the_seeds():
    assert RESULTS.ratio("before", "MM128", times_of) == pytest.approx((0.5 * 2.0) ** 0.5)
    assert RESULTS.ratio("before", "SFM", times_of) == pytest.approx(0.25)


def test_programs_that_one_side_failed_at_are_not_in_the_mean():
    assert RESULTS.ratio("before", "C2D", times_of) is None
    assert RESULTS.mean_ratio("before", times_of) == pytest.approx((1.0 * 0.25) ** 0.5)
    assert RESULTS.total_ratio("before") == pytest.approx((6 + 4 + 10) / (12 + 8 + 10))


def test_a_side_that_does_not_tune_has_no_ratio_of_tuning():
    results = Results(
        ["here", "torch"],
        {},
        [result("here", "SFM", 1, 5.0, 2e-6), result("torch", "SFM", 1, 0.0, 1e-6)],
    )
    assert results.ratio("torch", "SFM", lambda r: r.tuning) is None
    assert results.total_ratio("torch") is None
    assert results.ratio("torch", "SFM", times_of) == pytest.approx(2.0)


def test_the_table():
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in RESULTS.table().splitlines()] == [
        ["program", "here: tuning s", "kernel us", "before: tuning s", "kernel us"],
        ["--------------", "--------------", "---------", "----------------", "-------------"],
        ["MM128", "5.0", "34.6", "10.0 (0.500)", "34.6 (1.000)"],
        ["SFM", "10.0", "90.0", "10.0 (1.000)", "360.0 (0.250)"],
        ["C2D", "7.0", "50.0", "-", "-"],
        ["geometric mean", "", "", "(0.707)", "(0.500)"],
        ["all together", "27.0", "", "30.0 (0.667)", ""],
    ]  # fmt: skip


def test_the_share_of_the_final_speed_after_some_trials():
    softmax = RESULTS.of("here", "SFM")[0]
    assert softmax.best_so_far == [180e-6, 180e-6, 120e-6, 90e-6]
    assert [softmax.share_after(n) for n in (1, 2, 4, 8)] == [0.5, 0.5, 1.0, 1.0]
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"


def test_the_table_of_curves():
    results = Results(
        ["here", "before"],
        {},
        [
            result("here", "SFM", trial_seconds=(180e-6, 360e-6, 90e-6)),
            result("before", "SFM", trial_seconds=(40e-6,)),
            result("here", "C2D", error="no trial succeeded"),
        ],
    )
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in results.curves().splitlines()] == [
        ["program", "side", "1", "2", "3", "best so far"],
        ["-------", "------", "----", "----", "----", "-----------"],
        ["SFM", "here", "0.50", "0.50", "1.00", "▅▅█"],
        ["SFM", "before", "1.00", "", "", "█"],
    ]  # fmt: skip


def test_results_are_kept_for_later(tmp_path):
    RESULTS.save(tmp_path / "results.json")
    assert Results.load(tmp_path / "results.json") == RESULTS


def test_the_report_says_what_failed():
    assert suite.report(RESULTS).endswith("Left out:\n- C2D, before: no trial succeeded")


# --------------------------------------------------------------------------------------- a whole run


@pytest.fixture
def machine(monkeypatch):
    """Take the figures of the machine as known, which measuring takes most of a second for."""
    monkeypatch.setattr(suite, "machine", lambda target: {PEAK: "200.0"})


class Fake(Side):
    """Takes what it is told to take; `log` has what was done in which order."""

    def __init__(self, name, log, seconds=1e-6, digest=5.0):
        self.name, self.trials = name, 64
        self._log, self._seconds, self._digest = log, seconds, digest

    def tune(self, program, seed, folder):
        self._log.append(f"{self.name} tunes {program.name}")
        if self._digest is None:
            raise PeerError("no trial succeeded")
        return Tuned(3.0, (2e-6, 1e-6), self._digest)

    def run(self):
        self._log.append(self.name)
        return self._seconds


@pytest.mark.usefixtures("machine")
def test_sides_take_turns(tmp_path):
    log = []
    sides = [Fake("here", log), Fake("peer", log, 2e-6)]
    results = suite.compare(sides, [program("MM128"), program("SFM")], [1], tmp_path)
    assert [entry for entry in log if "tunes" in entry] == [
        "here tunes MM128",
        "peer tunes MM128",
        "peer tunes SFM",
        "here tunes SFM",
    ]
    assert log[2:6] == ["here", "peer", "here", "peer"]
    assert results.mean_ratio("peer", times_of) == pytest.approx(0.5)
    assert Results.load(tmp_path / "results.json") == results


@pytest.mark.usefixtures("machine")
def test_a_side_that_fails_is_left_out(tmp_path):
    sides = [Fake("here", []), Fake("peer", [], digest=None)]
    results = suite.compare(sides, [program("SFM")], [1], tmp_path)
    assert results.errors() == ["SFM, peer: no trial succeeded"]
    assert results.of("here", "SFM")[0].kernel == 1e-6


@pytest.mark.usefixtures("machine")
def test_a_side_that_computes_something_else_is_left_out(tmp_path):
    sides = [Fake("here", []), Fake("peer", [], digest=6.0)]
    results = suite.compare(sides, [program("SFM")], [1], tmp_path)
    assert results.errors() == ["SFM, peer: its output adds up to 6 instead of 5"]


@pytest.mark.usefixtures("machine")
def test_each_search_begins_in_an_empty_folder(tmp_path):
    class Untidy(Fake):
        def tune(self, program, seed, folder):
            assert list(folder.iterdir()) == []
            (folder / "records").touch()
            return super().tune(program, seed, folder)

    for _ in range(2):
        suite.compare([Untidy("here", [])], [program("SFM")], [1], tmp_path)


def test_an_earlier_run_is_not_overwritten(tmp_path, monkeypatch, capsys):
    where = ["--before", str(tmp_path), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["suite", "MM16", *where])
    with pytest.raises(SystemExit):
        suite.main()
    assert "would be overwritten; give another folder by --out" in capsys.readouterr().err


@pytest.mark.usefixtures("machine")
def test_ctrl_c_keeps_what_is_there(tmp_path):
    class Impatient(Fake):
        def tune(self, program, seed, folder):
            if program.name == "SFM":
                raise KeyboardInterrupt
            return super().tune(program, seed, folder)

    programs = [program("MM128"), program("SFM")]
    results = suite.compare([Impatient("here", [])], programs, [1], tmp_path)
    assert [r.program for r in results.results] == ["MM128"]
    assert Results.load(tmp_path / "results.json") == results


def test_a_run_and_then_another_one_against_it(tmp_path, monkeypatch, capsys):
    forked.fork_workers(monkeypatch)
    forked.measure_briefly(monkeypatch)
    machine_speed = codegen.machine_speed
    monkeypatch.setattr(codegen, "machine_speed", lambda target, again: machine_speed(target))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["suite", "MM16", "--trials", "2", *map(str, arguments)])
        suite.main()

    run("--out", tmp_path / "first")
    first = Results.load(tmp_path / "first" / "results.json")
    assert first.errors() == []
    (found,) = first.of("here", "MM16")
    assert found.kernel > 0
    assert len(found.trial_seconds) == 2
    side = earlier(tmp_path / "first", 2, tmp_path / "log", 60.0)
    results = suite.compare([Fake("here", [], digest=None), side], [program("MM16")], [1], tmp_path)
    (kept,) = results.of("before (first)", "MM16")
    assert (kept.tuning, kept.trial_seconds) == (found.tuning, found.trial_seconds)
    assert kept.kernel > 0
    assert "| MM16 " in capsys.readouterr().out


# ---------------------------------------------------------------------------------- programs, peers


def test_the_programs_of_the_suite():
    assert len(NAMES) == 15
    assert program("MM1024").shapes == [[1024, 1024]] * 3
    assert program("C3D[3]").parameters["d"] == 16
    assert program("C3D[3]").shapes[0] == [1, 16, 14, 14, 256]


def test_programs_with_other_extents():
    assert program("MM131x257x65").shapes == [[131, 65], [65, 257], [131, 257]]
    changed = program("C2D[3](h=15,stride=2)")
    assert changed.shapes == [[1, 15, 14, 256], [3, 3, 256, 256], [1, 8, 7, 256]]
    names = random_names(6, seed=1)
    assert [name[:2] for name in names] == ["MM", "C2"] * 3
    assert all(program(name).name == name for name in names)


def test_the_fastest_peer():
    times = [("here", 30e-6), ("here 16 trials", 10e-6), ("torch 2", 60e-6), ("numpy 2", 45e-6)]
    measured = [result(side, "MM128", 1, 6.0, seconds) for side, seconds in times]
    compared = Results([side for side, _ in times], {}, measured)
    row, mean = compared.best_peers().splitlines()[2:]
    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        "MM128",
        "30.0",
        "numpy 2",
        "45.0",
        "1.50",
    ]
    assert "1.50 (1.50)" in mean
    assert Results(["here", "here 16 trials"], {}, measured[:2]).best_peers() == ""


@pytest.mark.parametrize("name", ["C4D", "C2D[", "MM0", "MM128[1]"])
def test_a_program_that_there_is_not(name):
    with pytest.raises(ValueError, match=r"there is no program .* there are MM128, MM1024, C1D"):
        program(name)


def test_answers_of_peers():
    assert parse_answer('{"seconds": 0.5}\n', "tvm") == {"seconds": 0.5}
    with pytest.raises(PeerError, match=r"^RuntimeError: no trial succeeded$"):
        parse_answer('{"error": "RuntimeError: no trial succeeded"}', "tvm")
    for line in ("Segmentation fault\n", "[1, 2]"):
        with pytest.raises(PeerError, match=r"tvm answered .*, which is no JSON object"):
            parse_answer(line, "tvm")


PEER = """
import os, sys, time
sys.path.insert(0, {peers!r})
from serve import serve

def double(x):
    print("thinking")
    return {{"x": 2 * x}}

def fail():
    raise ValueError("no such thing\\nat all")

def die():
    sys.exit("out of luck")

def hang():
    time.sleep(60)

serve("fake 1.0", dict(double=double, fail=fail, die=die, hang=hang))
"""


@pytest.fixture
def peer(tmp_path):
    peers = Path(suite.__file__).parent / "peers"
    script = tmp_path / "fake_peer.py"
    script.write_text(PEER.format(peers=str(peers)))
    process = PeerProcess(Path(sys.executable), script, tmp_path / "fake.log", 20.0, {})
    yield process
    process.close()


def test_a_peer_answers_whatever_it_prints(peer, tmp_path):
    assert peer.start() == "fake 1.0"
    assert peer.request("double", x=4) == {"x": 8}
    assert (tmp_path / "fake.log").read_text() == "thinking\n"


def test_a_peer_that_fails_goes_on(peer):
    with pytest.raises(PeerError, match=r"^ValueError: no such thing$"):
        peer.request("fail")
    assert peer.request("double", x=1) == {"x": 2}


def test_a_peer_that_dies_is_started_anew(peer):
    with pytest.raises(PeerError, match=r"fake 1.0 ended with code 1; .*ends with 'out of luck'"):
        peer.request("die")
    assert peer.request("double", x=3) == {"x": 6}


def test_a_peer_that_takes_too_long_is_stopped(peer):
    peer.start()
    peer._limit = 0.2
    with pytest.raises(PeerError, match=r"fake 1.0 was stopped after 0.2 s"):
        peer.request("hang")


def test_an_interpreter_without_peers(tmp_path):
    with pytest.raises(PeerError, match="is no Python interpreter that runs"):
        start_peers(["torch"], [tmp_path / "python"], tmp_path, ExitStack(), 1.0)


def test_a_folder_that_is_no_version(tmp_path):
    with pytest.raises(
        PeerError, match="neither a checkout of this project nor a folder of the suite"
    ):
        earlier(tmp_path, 64, tmp_path / "log", 1.0)
