"""Figures of machines: measured, kept, printed."""

from __future__ import annotations

import errno
import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen import CodegenError, Target, machine_speed
from codegen.emit.optimize import assembly, object_code
from codegen.machine import known_speed, learn_speed
from codegen.machine.__main__ import main
from codegen.machine.kernels import CHAIN, PAGE_STEP, SUMS, kernels, multiply_adds, symbol
from codegen.machine.measure import keep_speed, kept_speed, measure, peak_flops, read_bandwidth
from codegen.machine.speed import MachineSpeed
from codegen.runtime.host_features import why_not_here
from codegen.target import host

# Figures of a machine from the times of loops: of a made-up machine, whose figures are known

CLOCK = 2e9
AVX2 = Target("llvm -mcpu=znver3 -mtriple=x86_64-linux-gnu")
OLD = Target("llvm -mcpu=sandybridge -mtriple=x86_64-linux-gnu")
ARM = Target("llvm -mcpu=neoverse-v1 -mtriple=aarch64-linux-gnu")


class MadeUpLoops:
    """A machine of 2 GHz with 2 units of 5 cycles; lines cost 1, 2, 4 and 12 cycles."""

    def __init__(self, target: Target, size: int) -> None:
        self.target = target
        self.size = size
        self.rng = np.random.default_rng(1)

    def seconds(self, name: str, count: int, limit: int = 0, start: int = 0) -> float:
        disturbed = self.rng.choice([1.0, 1.0, 1.3, 4.0])
        return float(disturbed * self.cycles(name, count, limit) / CLOCK)

    def cycles(self, name: str, count: int, limit: int) -> float:
        if name in ("stream", "pages"):
            # Memory is read in one pass, what lies in caches in several.
            loads = limit // (64 if name == "stream" else PAGE_STEP)
            return count * loads * self.cycles_of_load(name, limit, cached=count > 1)
        each = {
            "clock": CHAIN,
            "latency": 5 * CHAIN,
            "peak": multiply_adds(self.target) / 2,
            "forward": 11 * SUMS,
            "fork": 3000,
        }
        return count * each[name]

    def cycles_of_load(self, name: str, limit: int, cached: bool) -> float:
        caches, tlb = self.target.caches, self.target.core.tlb
        if name == "stream":
            inside = [cached and limit <= size for size in (caches.l1, caches.l2, caches.l3)]
            return [*(c for c, fits in zip((1, 2, 4), inside, strict=True) if fits), 12][0]
        pages = limit // PAGE_STEP
        return 1 if pages <= tlb[0] else 3 if pages <= tlb[1] else 10


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let code for any target count as code that can run, on a made-up machine."""
    monkeypatch.setattr("codegen.machine.measure.why_not_here", lambda target: None)
    monkeypatch.setattr("codegen.machine.measure.Loops", MadeUpLoops)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("target", [AVX2, OLD, ARM], ids=["znver3", "sandybridge", "neoverse"])
def test_the_least_of_many_times_tells_the_figures(target: Target) -> None:
    speed = measure(target)
    assert speed.clock == pytest.approx(CLOCK)
    assert speed.fma_units == pytest.approx(2)
    assert speed.fma_latency == pytest.approx(5)
    assert speed.peak_flops == pytest.approx(CLOCK * 2 * 2 * target.vector_bits / 32)
    assert speed.forward_cycles == pytest.approx(11)
    assert speed.line_cycles() == pytest.approx((1, 2, 4, 12))
    # The lines of very many pages come from the second cache: one cycle of the nine is theirs.
    assert speed.page_cycles == pytest.approx((2, 8))
    assert speed.implausible() is None


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("cores", "seconds"), [(4, 3000 / CLOCK), (1, 0.0)])
def test_several_cores_tell_what_a_parallel_loop_costs(
    monkeypatch: pytest.MonkeyPatch, cores: int, seconds: float
) -> None:
    monkeypatch.setattr("codegen.machine.measure._sharing_cores", lambda: cores)
    speed = measure(AVX2)
    assert speed.fork_seconds == pytest.approx(seconds)
    assert ("parallel loops  1.50 us to begin and end" in str(speed)) is (cores > 1)
    busy = replace(speed, fork_seconds=2e-4)
    assert "an empty parallel loop took 0.0002 s" in str(busy.implausible())


@pytest.mark.usefixtures("here")
def test_on_a_busy_machine_the_cost_of_a_parallel_loop_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = MadeUpLoops.seconds

    def busy(self: MadeUpLoops, name: str, *args: int) -> float:
        return seconds(self, name, *args) * (100 if name == "fork" else 1)

    monkeypatch.setattr(MadeUpLoops, "seconds", busy)
    monkeypatch.setattr("codegen.machine.measure._sharing_cores", lambda: 4)
    speed = measure(AVX2)
    assert speed.fork_seconds == 0
    assert speed.implausible() is None


def test_a_target_that_does_not_run_here_is_not_measured() -> None:
    target = ARM if why_not_here(ARM) else AVX2
    with pytest.raises(
        CodegenError, match=r"the speed of .* cannot be measured: .*this machine is"
    ):
        measure(target)


@pytest.mark.usefixtures("here")
def test_figures_that_no_processor_has_are_named() -> None:
    speed = measure(AVX2)
    assert "clock was measured as 2e+12" in str(replace(speed, clock=2e12).implausible())
    slow = replace(speed, read=(1e11, 1e9, 1e9, 3e9))
    assert "a larger memory was read at 3e+09 bytes/s" in str(slow.implausible())
    assert "loads from other pages" in str(replace(speed, page_seconds=(0.0, 1.0)).implausible())
    assert "fma_latency" in str(replace(speed, fma_seconds=0.0).implausible())


@pytest.mark.usefixtures("here")
def test_figures_print_as_a_table() -> None:
    rows = str(measure(AVX2)).splitlines()
    assert rows[0].split() == ["clock", "2.00", "GHz"]
    assert "64.0 GFLOPS: 2.00 vectors of 8 float32 per cycle, 5.0 cycles each" in rows[1]
    assert any("10.7 GB/s in order, 12.0 cycles per line" in row for row in rows)


@pytest.mark.usefixtures("here")
def test_figures_survive_as_plain_data() -> None:
    speed = measure(AVX2)
    data = speed.to_dict()
    assert MachineSpeed.from_dict(data) == speed
    for wrong in ([], {}, {**data, "clock": "fast"}, {**data, "read": [1.0]}, {**data, "more": 1}):
        with pytest.raises(ValueError, match="of a machine"):
            MachineSpeed.from_dict(wrong)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("cores", [1, 3])
def test_several_cores_do_as_much_as_each_of_them(cores: int) -> None:
    one = CLOCK * 2 * 2 * AVX2.vector_bits / 32
    assert peak_flops(AVX2, cores) == pytest.approx(cores * one)
    size = cores * AVX2.caches.l1
    bandwidth = read_bandwidth(size, AVX2, cores)
    assert bandwidth == pytest.approx(cores * 64 * CLOCK), "each reads its part from its own cache"


@pytest.mark.parametrize("target", [AVX2, OLD, ARM], ids=["znver3", "sandybridge", "neoverse"])
def test_loops_compile_for_any_target(target: Target) -> None:
    assert object_code(kernels(target), target, False)[:4] == b"\x7fELF"


def test_this_machine_is_measured_now() -> None:
    host = Target("llvm")
    assert peak_flops(host) > 1e8
    assert read_bandwidth(1 << 14, host) > 1e8


def test_the_loop_of_multiply_adds_has_nothing_else() -> None:
    text = assembly(kernels(AVX2), AVX2, False)
    body = text.split(symbol("peak") + ":")[1].split(".cfi_endproc")[0]
    loop = body.split(".p2align")[1].split("jne")[0]
    assert loop.count("vfmadd") == multiply_adds(AVX2) == 12
    assert "(%r" not in loop  # nothing is loaded, nothing stored


# ------------------------ What was measured of a machine is kept in the cache directory of the user

SPEED = MachineSpeed(
    256, 3e9, 6e9, 4 / 3e9, 11 / 3e9, (2e11, 1e11, 5e10, 1e10), (1 / 3e9, 8 / 3e9), 1e-6
)
OTHER = MachineSpeed(
    256, 2e9, 4e9, 5 / 2e9, 11 / 2e9, (1e11, 8e10, 4e10, 1e10), (1 / 2e9, 8 / 2e9), 2e-6
)
HERE = Target("llvm")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory, on a machine that measures as `SPEED` and may be measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("codegen.machine._known", {})
    monkeypatch.setattr(host, "is_made_up", lambda: False)
    monkeypatch.setattr("codegen.machine._measure.measure", lambda target: SPEED)
    return tmp_path / "tensorir"


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do as a new process."""
    monkeypatch.setattr("codegen.machine._known", {})


def test_a_machine_is_measured_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_speed(HERE) is None
    learn_speed(HERE)
    assert known_speed(HERE) == SPEED
    forget(monkeypatch)
    monkeypatch.setattr("codegen.machine._measure.measure", lambda target: OTHER)
    learn_speed(HERE)
    assert known_speed(HERE) == machine_speed(HERE) == SPEED
    assert machine_speed(HERE, again=True) == OTHER
    assert machine_speed(HERE) == OTHER


def test_vectors_of_another_width_are_measured_by_themselves(folder: Path) -> None:
    machine_speed("llvm")
    machine_speed("llvm -vector-width=128")
    assert len(list(folder.iterdir())) == 2


def test_the_file_says_of_which_machine_it_is(folder: Path) -> None:
    machine_speed(HERE)
    data = json.loads(only_file(folder).read_text())
    assert data["machine"]["cpu"] == host.cpu_identity()
    assert data["speed"]["clock"] == 3e9


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"machine": 1}', b"null"])
def test_what_cannot_be_read_is_measured_again(folder: Path, content: bytes) -> None:
    machine_speed(HERE)
    path = only_file(folder)
    whole = path.read_bytes()
    path.write_bytes(content)
    assert kept_speed(HERE) is None
    assert machine_speed(HERE) == SPEED
    assert path.read_bytes() == whole


def test_a_file_of_another_machine_or_with_odd_figures_counts_as_none(folder: Path) -> None:
    machine_speed(HERE)
    path = only_file(folder)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "machine": {**data["machine"], "cpu": "another"}}))
    assert kept_speed(HERE) is None
    path.write_text(json.dumps({**data, "speed": {**data["speed"], "clock": 1.0}}))
    assert kept_speed(HERE) is None
    path.write_text(json.dumps(data))
    assert kept_speed(HERE) == SPEED


def test_nothing_is_kept_where_nothing_can_be_written(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way))
    assert machine_speed(HERE) == SPEED
    learn_speed(HERE)
    assert known_speed(HERE) == SPEED
    assert kept_speed(HERE) is None


def test_a_cache_directory_is_an_absolute_path(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    keep_speed(HERE, SPEED)
    assert [p.parent for p in tmp_path.rglob("machine-*.json")] == [
        tmp_path / "home" / ".cache" / "tensorir"
    ]


def test_nothing_is_known_of_a_cpu_that_a_target_names(folder: Path) -> None:
    keep_speed(named := Target("llvm -mcpu=znver3"), SPEED)
    learn_speed(named)
    assert known_speed(named) is None


def test_nothing_is_known_of_a_made_up_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "is_made_up", lambda: True)
    keep_speed(HERE, SPEED)
    learn_speed(HERE)
    assert known_speed(HERE) is None


def test_without_memory_the_figures_of_the_model_serve(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr("codegen.machine._measure.measure", measure)
    monkeypatch.setattr("codegen.machine.measure.mmap.mmap", none_left)
    with caplog.at_level(logging.WARNING, "tensorir.codegen"):
        learn_speed(HERE)
    assert "MiB of memory, which the system refused" in caplog.text
    assert known_speed(HERE) is None


def test_what_no_processor_does_leaves_the_figures_of_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    odd = MachineSpeed(256, 1.0, 6e9, 1e-9, 1e-9, (1e11, 1e11, 1e11, 1e11), (0.0, 0.0), 0.0)
    monkeypatch.setattr("codegen.machine._measure.measure", lambda target: odd)
    with pytest.raises(CodegenError, match="could not be measured: clock was measured as 1, which"):
        machine_speed(HERE)
    with caplog.at_level(logging.WARNING, "tensorir.codegen"):
        learn_speed(HERE)
    assert f"The figures of the CPU model {HERE.mcpu} are used instead" in caplog.text
    assert known_speed(HERE) is None
    assert not folder.exists()


# ----------- `python -m codegen.machine` says what is known of a target, and what was measured here

MACHINE_SPEED = MachineSpeed(
    512, 3e9, 6e9, 4 / 3e9, 11 / 3e9, (4e11, 2e11, 1e11, 1e10), (0.0, 0.0), 0.0
)
FOREIGN = next(
    f"llvm -mcpu={model} -mtriple={triple}"
    for model, triple in (
        ("neoverse-v1", "aarch64-linux-gnu"),
        ("znver3", "x86_64-linux-gnu"),
    )
    if why_not_here(f"llvm -mcpu={model} -mtriple={triple}")
)


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    return {line[:16].strip(): line[16:] for line in lines}


def test_this_machine_is_described_and_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def machine_speed(target: Target, *, again: bool) -> MachineSpeed:
        asked.append(again)
        return MACHINE_SPEED

    monkeypatch.setattr("codegen.machine.__main__.machine_speed", machine_speed)
    main(["llvm"])
    rows = said(capsys)
    assert rows["clock"] == "3.00 GHz"
    assert rows["memory"] == "10.0 GB/s in order, 19.2 cycles per line"
    main(["llvm", "--again"])
    assert asked == [False, True]


def test_of_another_machine_the_figures_of_its_model_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main([FOREIGN])
    rows = said(capsys)
    assert rows["caches"].startswith("64 KiB" if "neoverse" in FOREIGN else "32 KiB")
    assert "clock" not in rows
    assert rows["not measured: th"].startswith("e code is for")


def test_a_target_that_is_none_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["metal"])
    assert "unknown target 'metal'" in capsys.readouterr().err
