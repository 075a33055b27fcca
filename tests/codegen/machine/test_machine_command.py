"""`python -m codegen.machine` says what is known of a target, and what was measured here."""

from __future__ import annotations

import pytest

from codegen import MachineSpeed, Target, why_not_here
from codegen.machine.__main__ import main

SPEED = MachineSpeed(512, 3e9, 6e9, 4 / 3e9, 11 / 3e9, (4e11, 2e11, 1e11, 1e10), (0.0, 0.0), 0.0)
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
        return SPEED

    monkeypatch.setattr("codegen.machine.__main__.machine_speed", machine_speed)
    main(["llvm"])
    rows = said(capsys)
    assert rows["clock"] == "3.00 GHz"
    assert rows["memory"] == "10.0 GB/s read in order, 19.2 cycles a line"
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
