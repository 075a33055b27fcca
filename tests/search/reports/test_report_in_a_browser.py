"""The report in a real browser: it draws, says no error, fits a phone, and follows a search."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import search as ms
from search.database.line_store import LineStore
from search.lines import json_line
from search.reports.page import LiveReport
from search.reports.run_directory import TRIALS
from tests.search.browser import DESKTOP, PHONE, Browser
from tests.search.reports.searches_for_pages import TRIAL, trials, write, write_search

By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
DRAWN_FIRST = "document.querySelector('#progress-picture')?.textContent"


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a search with programs."""
    return ms.report(write_search(tmp_path_factory.mktemp("search") / "matmul")).path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a search of two tasks, of which some trials were stopped and some failed."""
    folder = tmp_path_factory.mktemp("search") / "model"
    write(folder, trials(60, "conv2d"), trials(60, "<b>dense</b>", seed=2))
    return ms.report(folder).path


DRAWN = "document.querySelector('{} canvas')?.getContext('2d').getImageData(0, 0, 9999, 300).data.some((v) => v)"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_charts_are_drawn_and_nothing_is_wider_than_the_window(
    browser: Browser, matmul: Path, size: tuple[int, int]
) -> None:
    browser.open(matmul, size, until=DRAWN_FIRST)
    for chart in ("#progress", "#panels", "#predicted"):
        browser.show(chart)
        browser.wait(DRAWN.format(chart))
    browser.show("#winners")
    assert browser.run("document.documentElement.scrollWidth") <= size[0]
    browser.picture(f"matmul-{size[0]}")
    browser.no_complaints()


def test_the_page_has_the_colours_that_are_chosen(browser: Browser, model: Path) -> None:
    browser.open(model, until=DRAWN_FIRST)
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    light = browser.run(colour)
    browser.find("#theme").send_keys("dark")
    browser.wait(f"{colour} !== '{light}'")
    browser.show("#progress")
    browser.wait(DRAWN.format("#progress"))
    browser.picture("dark")

    def is_kept(_: object) -> bool:
        browser.open(
            model, until=DRAWN_FIRST
        )  # the browser writes storage a moment after the page did
        return browser.run(colour) != light

    WebDriverWait(browser.driver, 20, 0.05).until(is_kept, "the colours are kept")
    browser.find("#theme").send_keys("of the system")
    browser.wait(f"{colour} === '{light}'")
    browser.no_complaints()


def test_the_winner_is_explored(browser: Browser, matmul: Path) -> None:
    browser.open(matmul, until=DRAWN_FIRST)
    browser.find("#theme").send_keys("dark")
    browser.wait("document.querySelector('#winners .program .row')")
    program = "document.querySelector('#winners .program').textContent"
    assert "for i_0, j_0, k_0" in browser.run(program)
    assert "measured 3 us" in browser.find("#winners .estimate").text
    browser.show("#schedules")
    browser.picture("winner")
    colour = "getComputedStyle(document.querySelector('{}')).backgroundColor"
    own = browser.run(colour.format("#winners .explorer"))
    assert own == browser.run(colour.format("#schedules")), "both are dark"
    slider = browser.find("#winners input[type=range]")
    slider.send_keys(Keys.HOME)
    browser.wait(f"{program}.includes('for i, j, k in T.grid(32, 32, 32)')")
    browser.find("#theme").send_keys("of the system")
    browser.no_complaints()


def test_another_task_is_shown_as_text(browser: Browser, model: Path) -> None:
    browser.open(model, until=DRAWN_FIRST)
    before = browser.wait("document.querySelector('#progress .canvas').ariaLabel")
    other = browser.run("document.querySelector('#task').options[1].text")
    browser.find("#task").send_keys(other)
    browser.wait(f"document.querySelector('#progress .canvas').ariaLabel !== {before!r}")
    assert "<b>dense</b>" in browser.run("document.querySelector('#task').textContent")
    assert browser.run(
        "document.querySelector('main b') === null || !document.querySelector('#tasks b')"
    )
    browser.no_complaints()


def test_each_chart_has_a_table_and_is_read_by_keys(browser: Browser, model: Path) -> None:
    browser.open(model, until=DRAWN_FIRST)
    browser.show("#progress").find_element(By.TAG_NAME, "summary").click()
    rows = browser.wait("document.querySelectorAll('#progress tbody tr').length")
    assert 1 < rows < 30, "each that was the best so far"
    chart = browser.find("#progress .canvas")
    chart.send_keys(Keys.HOME)
    assert browser.run("document.querySelector('#progress .tip').textContent").startswith(
        "trial 0: "
    )
    chart.send_keys(Keys.ARROW_RIGHT)
    assert "trial 1: " in browser.run("document.querySelector('#progress .tip').textContent")
    browser.no_complaints()


def test_trials_are_sorted_and_chosen(browser: Browser, model: Path) -> None:
    browser.open(model, until=DRAWN_FIRST)
    browser.show("#trials summary").click()
    browser.wait("document.querySelectorAll('#trial-table tbody tr').length === 60")
    browser.find("[data-name=by-time]").click()
    first = "document.querySelector('#trial-table tbody tr').cells"
    times = browser.run(
        "[...document.querySelectorAll('#trial-table tbody tr')].map((r) => r.cells[3].textContent)"
    )
    known = [float(text.removeprefix("> ").replace(",", "")) for text in times if text]
    assert known == sorted(known)
    assert times[-1] == "", "failed trials come last"
    browser.find("[data-name=stage]").send_keys("check")
    browser.wait(f"{first}[2].textContent === 'check'")
    assert browser.run("document.activeElement.dataset.name") == "stage", "the focus stays"
    browser.no_complaints()


def test_a_search_without_a_trial_that_worked_is_shown(browser: Browser, tmp_path: Path) -> None:
    failed = replace(TRIAL, stage="build", run_secs=(), error="it is odd", decisions=None)
    write(tmp_path, iter([failed, failed]))
    browser.open(ms.report(tmp_path).path, until=DRAWN_FIRST)
    browser.show("#trials")
    assert "None of 2 trials was measured." in browser.find("#progress").text
    assert "it is odd" in browser.find("#failures").text
    browser.no_complaints()


def test_thousands_of_trials_are_shown_at_once(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "tuning_trials.json").write_text(
        "".join(f"{json_line(one.as_json())}\n" for one in trials(4_000))
    )
    written = ms.report(tmp_path)
    assert written.path.stat().st_size < 1_200_000
    browser.open(written.path, until=DRAWN_FIRST)
    browser.wait(DRAWN.format("#progress"))
    spent = "performance.timing.loadEventEnd - performance.timing.navigationStart"
    assert 0 < browser.wait(spent) < 10_000, "about a second on an idle machine"
    browser.no_complaints()


def test_new_trials_appear_in_a_page_that_is_live(browser: Browser, tmp_path: Path) -> None:
    write(tmp_path, trials(8))
    with LiveReport(tmp_path, port=0) as live:
        thread = threading.Thread(target=live.serve)
        thread.start()
        browser.open(live.url, until=DRAWN_FIRST)
        browser.wait("document.querySelector('#live').textContent === 'live: 8 trials'")
        seen = time.monotonic()
        LineStore(tmp_path).add(TRIALS, replace(TRIAL, number=8, run_secs=(1e-9,)))
        browser.wait("document.querySelector('#live').textContent === 'live: 9 trials'")
        assert time.monotonic() - seen < 10
        browser.wait("document.querySelector('#summary').textContent.includes('0.001 us')")
        browser.wait("document.querySelector('#progress .canvas').ariaLabel.includes('9 trials')")
        browser.picture("live")
        browser.no_complaints()
        live.stop()
        thread.join()
    browser.wait("document.querySelector('#live').textContent.includes('the server is gone')")
