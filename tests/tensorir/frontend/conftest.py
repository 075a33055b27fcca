"""Models are built in this process, without others that make schedules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codegen.target import host


@pytest.fixture(autouse=True, scope="module")
def _one_core() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "physical_cores", lambda: 1)
        yield
