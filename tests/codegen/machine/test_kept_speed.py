"""What was measured of a machine is kept in the cache directory of the user."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path

import pytest

from codegen import CodegenError, MachineSpeed, Target, machine_speed
from codegen.machine import known_speed, learn_speed
from codegen.machine.measure import keep_speed, kept_speed, measure
from codegen.target import host

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
    assert "MiB of memory, which the system does not give" in caplog.text
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
    assert f"The figures of the CPU model {HERE.mcpu} serve instead" in caplog.text
    assert known_speed(HERE) is None
    assert not folder.exists()
