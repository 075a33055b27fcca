"""The explorer of a run in a real browser: filters, keys, and the schedule of a trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import search as ms
from tests.search.browser import DESKTOP, PHONE, Browser
from tests.search.reports.searches_for_pages import trials, write, write_search

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
ActionChains = pytest.importorskip("selenium.webdriver").ActionChains
DRAWN = "document.querySelector('.points path')"
COUNT = "document.querySelector('.points header [role=status]').textContent"
READ = "document.querySelector('.pointed').textContent"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_search(tmp_path_factory.mktemp("search") / "matmul")
    return ms.explore(folder).save(folder / "x.html")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_range_of_an_axis_filters(browser: Browser, page: Path, size: tuple[int, int]) -> None:
    browser.open(page, size, until=DRAWN)
    drag = ActionChains(browser.driver)
    drag.move_to_element(browser.find(".axis line")).move_by_offset(0, 60)
    drag.click_and_hold().move_by_offset(0, 90).release().perform()
    assert browser.run(COUNT) == "3 of 20 trials match"
    assert browser.run("document.querySelectorAll('.lines .out').length") == 17
    assert browser.run("document.querySelectorAll('.points tbody tr').length") == 3
    browser.picture(f"points-{size[0]}")
    browser.find(".points header button").click()
    assert browser.run(COUNT) == ""
    assert browser.run("document.documentElement.scrollWidth") <= size[0]
    browser.no_complaints()


def test_a_trial_is_found_and_opened_by_keys(browser: Browser, page: Path) -> None:
    browser.open(page, until=DRAWN)
    lines = browser.find(".axes svg")
    lines.send_keys(Keys.ARROW_RIGHT)
    assert browser.run(READ).startswith("trial 0: 3 us, predicted score 0.3333, tile of loop")
    lines.send_keys(Keys.ARROW_RIGHT)
    assert browser.run(READ).startswith("trial 3: 4 us")
    lines.send_keys(Keys.ENTER)
    browser.wait("document.querySelector('.explorer .program .row')")
    assert browser.run("document.activeElement.textContent") == "Trial 3 of matmul: 4 us"
    assert "measured 4 us" in browser.find(".explorer .estimate").text
    browser.find(".explorer [data-tab=asm]").click()
    assert browser.run("document.querySelectorAll('.details .row').length") > 5
    lines.send_keys(Keys.END, Keys.ENTER)
    assert "The schedule of trial 17 is not in this page" in browser.find("[role=alert]").text
    browser.no_complaints()


def test_filters_are_set_as_numbers(browser: Browser, page: Path) -> None:
    browser.open(page, until=DRAWN)
    browser.find(".points summary").click()
    browser.wait("document.querySelector('.points details input')")
    until = browser.find(".points [aria-label='time (us), to']")
    until.send_keys(Keys.CONTROL + "a")
    until.send_keys("10", Keys.TAB)
    browser.wait(f"{COUNT} === '8 of 20 trials match'")
    until.send_keys(Keys.CONTROL + "a")
    until.send_keys(Keys.DELETE, Keys.TAB)
    browser.wait(f"{COUNT} === ''")
    choice = browser.find(".points details select")
    assert choice.get_attribute("aria-label").endswith("from")
    choice.send_keys(Keys.END)
    browser.wait(f"{COUNT} === '1 of 20 trials match'")
    browser.no_complaints()


def test_a_click_on_a_line_opens_its_schedule(browser: Browser, page: Path) -> None:
    browser.open(page, until=DRAWN)
    fastest = browser.find(".lines path:last-child").get_attribute("d")
    (x, y), (right, end) = (map(float, place.split()) for place in fastest[1:].split("L")[:2])
    box = browser.find(".axes svg").rect
    click = ActionChains(browser.driver)
    place = (int(box["x"] + 0.9 * x + 0.1 * right), int(box["y"] + 0.9 * y + 0.1 * end))
    click.w3c_actions.pointer_action.move_to_location(*place).click()
    click.perform()
    browser.wait("document.querySelector('.explorer .program .row')")
    assert browser.run("document.querySelector('.opened h3').textContent").startswith("Trial 0")
    browser.no_complaints()


def test_another_task_and_space_are_chosen(browser: Browser, tmp_path: Path) -> None:
    first = (replace(one, space=one.number % 2) for one in trials(20, "<b>conv</b>"))
    write(tmp_path, first, trials(20, "dense", seed=2))
    browser.open(ms.explore(tmp_path).save(tmp_path / "x.html"), until=DRAWN)
    browser.find(".points header select").send_keys("<b>")
    browser.wait("document.querySelectorAll('.lines path').length === 10")
    spaces = browser.driver.find_elements("css selector", ".points header select")[1]
    assert "design space 0: 10 tried" in spaces.text
    spaces.send_keys(Keys.ARROW_DOWN)
    assert browser.run("document.querySelector('.points b') === null")
    assert browser.run("document.querySelectorAll('.lines .failed').length") >= 0
    browser.find(".axes svg").send_keys(Keys.END)
    assert "failed in check" in browser.run(READ)
    browser.no_complaints()


def test_the_colours_follow_the_system(browser: Browser, page: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        browser.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        browser.open(page, until=DRAWN)
        browser.picture(f"points-{scheme}")
        line = "getComputedStyle(document.querySelector('.lines .fast')).stroke"
        colours[scheme] = (
            browser.run(line),
            browser.run("getComputedStyle(document.querySelector('.points')).backgroundColor"),
        )
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert all(a != b for a, b in zip(colours["light"], colours["dark"], strict=True))
