"""Quotas of control groups count where the number of cores is decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.target import host
from codegen.target.host import quota_of

V2 = "0::/user/app\n"
V1 = "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n"


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        (V2, {}, None),
        (V2, {"user/app/cpu.max": "max 100000"}, None),
        (V2, {"user/app/cpu.max": "250000 100000"}, 2),
        (V2, {"user/app/cpu.max": "max 100000", "user/cpu.max": "300000 100000"}, 3),
        (V2, {"user/app/cpu.max": "400000 100000", "user/cpu.max": "100000 100000"}, 1),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/../../host/path\n", {"cpu.max": "200000 100000"}, 2),
        (
            V1,
            {
                "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000",
                "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "50000",
            },
            3,
        ),
        (V1, {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        (None, {"cpu.max": "100000 100000"}, None),
    ],
)
def test_the_tightest_quota_counts(
    membership: str | None, files: dict[str, str], cores: int | None, tmp_path: Path
) -> None:
    if membership is not None:
        (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "mounts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert quota_of(tmp_path / "cgroup", tmp_path / "mounts") == cores


def test_a_process_counts_no_more_cores_than_its_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "core_groups", lambda: [frozenset({k, k + 8}) for k in range(8)])
    monkeypatch.setattr(host, "core_quota", lambda: 3)
    assert (host.physical_cores(), host.logical_cores()) == (3, 3)
    monkeypatch.setattr(host, "core_quota", lambda: 12)
    assert (host.physical_cores(), host.logical_cores()) == (8, 12)
    monkeypatch.setattr(host, "core_quota", lambda: None)
    assert (host.physical_cores(), host.logical_cores()) == (8, 16)
