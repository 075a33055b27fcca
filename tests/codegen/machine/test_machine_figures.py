"""Figures of a machine from the times of loops: of a made-up machine, whose figures are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen import CodegenError, Target
from codegen.emit.optimize import assembly, object_code
from codegen.machine.kernels import CHAIN, PAGE_STEP, SUMS, kernels, multiply_adds, symbol
from codegen.machine.measure import measure, peak_flops, read_bandwidth
from codegen.machine.speed import MachineSpeed
from codegen.runtime.host_features import why_not_here

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
    """Let code for any target count as code that can run."""
    monkeypatch.setattr("codegen.machine.measure.why_not_here", lambda target: None)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("target", [AVX2, OLD, ARM], ids=["znver3", "sandybridge", "neoverse"])
def test_the_least_of_many_times_tells_the_figures(target: Target) -> None:
    speed = measure(target, MadeUpLoops)
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
    speed = measure(AVX2, MadeUpLoops)
    assert speed.fork_seconds == pytest.approx(seconds)
    assert ("parallel loops  1.50 us to begin and end" in str(speed)) is (cores > 1)
    assert "an empty parallel loop took 1 s" in str(replace(speed, fork_seconds=1.0).implausible())


def test_a_target_that_does_not_run_here_is_not_measured() -> None:
    target = ARM if why_not_here(ARM) else AVX2
    with pytest.raises(CodegenError, match=r"nothing can be measured for .*this machine is"):
        measure(target, MadeUpLoops)


@pytest.mark.usefixtures("here")
def test_figures_that_no_processor_has_are_named() -> None:
    speed = measure(AVX2, MadeUpLoops)
    assert "clock was measured as 2e+12" in str(replace(speed, clock=2e12).implausible())
    slow = replace(speed, read=(1e11, 1e9, 1e9, 3e9))
    assert "a larger memory was read at 3e+09 bytes/s" in str(slow.implausible())
    assert "loads from other pages" in str(replace(speed, page_seconds=(0.0, 1.0)).implausible())
    assert "fma_latency" in str(replace(speed, fma_seconds=0.0).implausible())


@pytest.mark.usefixtures("here")
def test_figures_print_as_a_table() -> None:
    rows = str(measure(AVX2, MadeUpLoops)).splitlines()
    assert rows[0].split() == ["clock", "2.00", "GHz"]
    assert "64.0 GFLOPS: 2.00 vectors of 8 float32 a cycle, 5.0 cycles each" in rows[1]
    assert any("10.7 GB/s read in order, 12.0 cycles a line" in row for row in rows)


@pytest.mark.usefixtures("here")
def test_figures_survive_as_plain_data() -> None:
    speed = measure(AVX2, MadeUpLoops)
    data = speed.to_dict()
    assert MachineSpeed.from_dict(data) == speed
    for wrong in ([], {}, {**data, "clock": "fast"}, {**data, "read": [1.0]}, {**data, "more": 1}):
        with pytest.raises(ValueError, match="of a machine"):
            MachineSpeed.from_dict(wrong)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("cores", [1, 3])
def test_several_cores_do_as_much_as_each_of_them(cores: int) -> None:
    one = CLOCK * 2 * 2 * AVX2.vector_bits / 32
    assert peak_flops(AVX2, cores, MadeUpLoops) == pytest.approx(cores * one)
    size = cores * AVX2.caches.l1
    bandwidth = read_bandwidth(size, AVX2, cores, MadeUpLoops)
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
