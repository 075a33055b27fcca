"""The explorer as a page in a real browser: it steps, links its views, and can be read by keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedule import Schedule
from search.explorer import Explorer
from tensorir import parse
from tests.search.browser import DESKTOP, PHONE, Browser
from tests.search.explorer.test_explorer import TARGET, tiled

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
DRAWN = "document.querySelector('.program .row')"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Explorer(tiled(), TARGET).save(tmp_path_factory.mktemp("explorer") / "x.html")


def test_steps_show_what_changed(browser: Browser, page: Path) -> None:
    browser.open(page, until=DRAWN)
    text = "document.querySelector('.program').textContent"
    assert "T.grid(4, 64, 8, 128)" in browser.run(text)
    browser.find("[aria-label='previous step']").click()
    browser.find("[aria-label='previous step']").click()
    browser.find("[aria-label='previous step']").click()
    assert browser.run("document.querySelector('input[type=range]').value") == "3"
    browser.find("[aria-label='next step']").click()
    assert browser.run(
        "[...document.querySelectorAll('.gone')].map((r) => r.textContent.trim())[0]"
    ) == ("for i, j, k in T.grid(32, 128, 64):")
    assert "for i_0, i_1, j, k" in browser.run("document.querySelector('.new').textContent")
    assert browser.run("document.querySelector('select').disabled")
    browser.picture("explorer-step")
    browser.no_complaints()


def test_facts_begin_with_the_most_expensive_statement(browser: Browser, page: Path) -> None:
    browser.open(page, until=DRAWN)
    facts = browser.find(".facts").text
    assert "of the most expensive statement" in facts.lower()
    headings = [e.text for e in browser.driver.find_elements("css selector", ".facts h4")]
    assert headings == [
        *("buffer C", "buffer A", "buffer B", "block C"),
        *("loop j", "loop i_1", "loop k", "loop i_0"),
    ]
    assert "in each iteration of" in facts
    assert "touches 56 KiB (fits L2)" in facts
    assert browser.run("document.querySelectorAll('.program .lit').length") > 0
    assert "% of the peak" in browser.find(".estimate").text


def test_a_line_lights_its_instructions(browser: Browser, page: Path) -> None:
    browser.open(page, until=DRAWN)
    browser.find("[data-tab=asm]").click()
    rows = browser.driver.find_elements("css selector", ".program .row")
    (loop,) = [row for row in rows if "for i_0, k" in row.text]
    browser.driver.execute_script("arguments[0].focus()", loop)
    lit = "document.querySelectorAll('.details .lit').length"
    assert browser.run(lit) > 5
    assert "loop i_0, 4 iterations" in browser.run(
        "document.querySelector('[aria-live]').textContent"
    )
    browser.find("[data-tab=facts]").click()
    assert "% of the estimated time" in browser.find(".facts").text
    loop.send_keys(Keys.ARROW_DOWN)
    browser.wait("document.querySelector('[aria-live]').textContent.startsWith('block C')")
    loop.send_keys(Keys.ARROW_LEFT)
    browser.wait("document.querySelector('input[type=range]').value === '5'")
    browser.no_complaints()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_accesses_are_drawn(
    browser: Browser,
    page: Path,
    size: tuple[int, int],
) -> None:
    browser.open(page, size, until=DRAWN)
    browser.find("[data-tab=accesses]").click()
    pixels = "document.querySelector('canvas').getContext('2d').getImageData(0, 0, 99, 99).data"
    browser.wait(f"{pixels}.some((v) => v)")
    browser.driver.execute_script(
        "const time = document.querySelector('.facts input');"
        "time.value = 100; time.dispatchEvent(new Event('input'))"
    )
    assert "iteration 101 of the first 512" in browser.find(".facts").text
    assert browser.run("document.documentElement.scrollWidth") <= size[0]
    browser.picture(f"explorer-accesses-{size[0]}")
    browser.no_complaints()


def test_an_iteration_without_an_access_marks_no_element(browser: Browser, tmp_path: Path) -> None:
    mod = parse("""
    @T.prim_func
    def main(A: T.Buffer((4,)), B: T.Buffer((5,))):
        for i in range(5):
            with T.block("B"):
                v = T.axis.spatial(5, i)
                B[v] = T.if_then_else(1 <= v, A[v - 1], T.float32(0))
    """)
    browser.open(Explorer(Schedule(mod), TARGET).save(tmp_path / "x.html"), until=DRAWN)
    browser.find("[data-tab=accesses]").click()
    opacity = {
        access: browser.run(
            f"document.querySelector('canvas[aria-label^=\"{access}\"]')"
            ".getContext('2d').getImageData(6, 6, 1, 1).data[3]"
        )
        for access in ("load of A", "store of B")
    }
    assert opacity == {"load of A": 0, "store of B": 255}, "of the first element, in iteration 1"
    browser.no_complaints()


def test_the_colours_follow_the_system(browser: Browser, page: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        browser.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        browser.open(page, until=DRAWN)
        colours[scheme] = browser.run(
            "getComputedStyle(document.querySelector('.tx')).backgroundColor"
        )
        browser.picture(f"explorer-{scheme}")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours["light"] != colours["dark"]
