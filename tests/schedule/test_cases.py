"""The cases of primitives, which are text in `tests/schedule/primitives`."""

from __future__ import annotations

import pytest

from tests.schedule.cases import Case, case_files, cases_of, check

CASES = [
    pytest.param(case, id=f"{path.stem}: {case.title}")
    for path in case_files()
    for case in cases_of(path)
]


@pytest.mark.parametrize("case", CASES)
def test_case(case: Case) -> None:
    check(case)
