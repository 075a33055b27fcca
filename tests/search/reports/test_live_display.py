"""The screen during a search: one table, wherever it is shown."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import pytest

from search.reports.live_display import live_display
from tensorir.script.display import preformatted

FIRST = "ID | Best\n---------\n 0 |  N/A"
SECOND = "ID | Best\n---------\n 0 | 7 us"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(done: int = 0) -> None:
    display = live_display(8)
    display.resumed(done)
    display.table(FIRST)
    display.phase("measuring", 1, 4)
    display.trial("7.00 us")
    display.message("batch 1 is over")
    display.table(SECOND)
    display.close()


def test_a_file_gets_messages_and_the_last_table(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    assert capsys.readouterr() == ("", f"batch 1 is over\n{SECOND}\n")


def test_on_a_terminal_a_bar_and_the_table_change_in_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    show(done=3)
    drawn = screen.getvalue()
    assert drawn.endswith(f"{SECOND}\n"), "what stays"
    assert "batch 1 is over\n" in drawn
    assert capsys.readouterr().err == ""
    assert "measuring 2/4" in drawn
    assert "3/8" in drawn
    for row in ("ID | Best", " 0 |  N/A"):
        assert row in drawn
    assert drawn.count("\n") == drawn.count("\x1b[A") + 4, (
        "each way down goes up again, but for what stays"
    )


def test_in_a_notebook_one_output_changes_in_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, content: dict[str, str], *, raw: bool) -> None:
            shown[-1] = content

    def display(content: dict[str, str], **_: Any) -> Handle:
        shown.append(content)
        return Handle()

    notebook = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    show()
    (saved,) = shown
    assert saved["text/plain"] == f"1 of 8 trials, best 7.00 us: done\n{SECOND}"
    assert '<progress value="1" max="8">' in saved["text/html"]
    assert saved["text/html"].endswith(preformatted(SECOND))
    assert "monospace; white-space: pre;" in saved["text/html"]
    assert capsys.readouterr() == ("", "batch 1 is over\n")
