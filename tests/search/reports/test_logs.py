"""The files of the logs of a run."""

from pathlib import Path

import pytest

from search.reports.live_display import Progress
from search.reports.logs import Logs


@pytest.mark.parametrize(
    ("task", "file"),
    [
        ("conv2d", "tvm.meta_schedule.logging.task_0_conv2d.log"),
        ("a/b", "tvm.meta_schedule.logging.task_0_a_b.log"),
        ("a\0b\nc", "tvm.meta_schedule.logging.task_0_a_b_c.log"),
    ],
)
def test_a_task_of_any_name_has_a_log(task: str, file: str, tmp_path: Path) -> None:
    with Logs(tmp_path, [task], Progress()) as logs:
        logs.tasks[0].info("said")
    assert "said" in (tmp_path / "logs" / file).read_text()


class Shown(Progress):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text.partition("] ")[2])


def test_a_message_of_a_run_inside_of_a_run_is_shown_once(tmp_path: Path) -> None:
    outer, inner = Shown(), Shown()
    with Logs(tmp_path / "outer", ["main"], outer) as logs:
        with Logs(tmp_path / "inner", ["main"], inner) as nested:
            nested.scheduler.info("of the inner run")
        logs.scheduler.info("of the outer run")
    assert (outer.messages, inner.messages) == (["of the outer run"], ["of the inner run"])


def test_a_long_name_is_cut_where_files_have_to_end(tmp_path: Path) -> None:
    with Logs(tmp_path, ["\N{CJK UNIFIED IDEOGRAPH-4E00}" * 100], Progress()) as logs:
        logs.tasks[0].info("said")
    assert len(list((tmp_path / "logs").iterdir())) == 2
