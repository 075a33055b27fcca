"""A page in a real browser, and what it complains about.

`TENSORIR_SCREENSHOTS=DIR` keeps pictures, to look at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1280, 900), (390, 844)


class Browser:
    """A page in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(
        self, page: os.PathLike[str] | str, size: tuple[int, int] = DESKTOP, *, until: str
    ) -> None:
        """Open a page in a window of a size, and wait until an expression of it is true."""
        self.driver.get_log("browser")
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {**metrics, "mobile": size == PHONE}
        )
        self.driver.get(page if isinstance(page, str) else Path(page).as_uri())
        self.wait(until)

    def run(self, script: str) -> Any:
        """Return what an expression of the page is."""
        return self.driver.execute_script(f"return ({script})")

    def wait(self, script: str, seconds: float = 20) -> Any:
        """Wait until an expression of the page is true, and return it."""
        from selenium.webdriver.support.ui import WebDriverWait  # noqa: PLC0415 - an extra

        return WebDriverWait(self.driver, seconds, 0.05).until(lambda _: self.run(script), script)

    def find(self, selector: str) -> Any:
        """Return the first element that a selector of style sheets has."""
        return self.driver.find_element("css selector", selector)

    def show(self, selector: str) -> Any:
        """Return an element after it came into view."""
        element = self.find(selector)
        self.driver.execute_script("arguments[0].scrollIntoView()", element)
        return element

    def no_complaints(self) -> None:
        """Fail if the console has an error or a warning."""
        assert [entry["message"] for entry in self.driver.get_log("browser")] == []

    def picture(self, name: str) -> None:
        """Keep a picture where somebody has asked for it."""
        folder = os.environ.get("TENSORIR_SCREENSHOTS")
        if folder:
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    pytest.importorskip("selenium", reason="it comes with the extra `browser`")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    from selenium import webdriver  # noqa: PLC0415 - an extra
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for switch in (*SWITCHES, f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield Browser(driver)
    driver.quit()
