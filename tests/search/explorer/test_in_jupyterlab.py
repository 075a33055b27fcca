"""The explorers in JupyterLab in a real browser: shown, a tile edited, measured, exported.

`make notebooks` runs it: starting JupyterLab takes long, and is part of the extra `notebook`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.search.browser import Browser

if os.environ.get("TENSORIR_JUPYTERLAB") != "1":
    pytest.skip("make notebooks runs it", allow_module_level=True)
pytest.importorskip("anywidget", reason="it comes with the extra `notebook`")
pytest.importorskip("jupyterlab", reason="it comes with the extra `notebook`")

CELL = """\
from tests.search.explorer.test_explorer import tiled
from search.explorer import Explorer
explorer = Explorer(tiled(), "llvm -num-cores=1")
explorer.save("x.html")
explorer"""
RUN_CELL = """\
from pathlib import Path
import search as ms
from tests.search.reports.searches_for_pages import write_search
ms.explore(write_search(Path("run")))"""


def notebook_of(source: str) -> str:
    """Return a notebook with one cell."""
    cell = {
        "cell_type": "code", "source": source, "id": "one", "metadata": {}, "outputs": [],
        "execution_count": None,
    }  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    return json.dumps({"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def notebooks(tmp_path: Path) -> Iterator[str]:
    """The address of two notebooks with the explorers of a schedule and of a run."""
    (tmp_path / "x.ipynb").write_text(notebook_of(CELL))
    (tmp_path / "run.ipynb").write_text(notebook_of(RUN_CELL))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {
        f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")
    }
    root = str(Path(__file__).parents[3])
    options = {
        "ip": "127.0.0.1", "port": port, "token": "", "password": "", "root_dir": tmp_path,
        "open_browser": False, "allow_root": True,
    }  # fmt: skip
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterlab", "--LabApp.news_url=None"),
            *(f"--ServerApp.{name}={value}" for name, value in options.items()),
        ],
        env={**os.environ, **folders, "PYTHONPATH": root},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            assert server.poll() is None, "JupyterLab does not start"
            try:
                urlopen(f"{address}/api", timeout=5).close()
                break
            except (URLError, TimeoutError):
                time.sleep(0.2)
        yield f"{address}/lab/tree"
    finally:
        server.terminate()
        server.wait(20)


def run_cell(browser: Browser, address: str, until: str) -> None:
    """Open a notebook, run its cell, and wait until an expression of the page is true."""
    from selenium.webdriver import ActionChains, Keys  # noqa: PLC0415 - an extra

    browser.open(f"{address}?reset", until="document.querySelector('.jp-Notebook .cm-content')")
    browser.wait("document.body.textContent.includes('| Idle')", 60)
    run = ActionChains(browser.driver)
    browser.find(".jp-Notebook .cm-content").click()
    run.key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    browser.wait(until, 60)


def edit_a_tile(browser: Browser, factor: str) -> None:
    browser.driver.execute_script(
        "const choice = document.querySelector('.explorer .decision select');"
        f"choice.value = '{factor}'; choice.dispatchEvent(new Event('change'))"
    )


def test_a_tile_is_edited_and_measured(browser: Browser, notebooks: str, tmp_path: Path) -> None:
    run_cell(browser, f"{notebooks}/x.ipynb", "document.querySelector('.explorer .program .row')")
    facts = "document.querySelector('.explorer .facts').textContent"
    browser.wait(f"{facts}.includes('in each iteration of')", 60)
    edit_a_tile(browser, "16")
    program = "document.querySelector('.explorer .program').textContent"
    browser.wait(f"{program}.includes('T.grid(2, 64, 16, 128)')")
    browser.find(".explorer [aria-label='previous step']").click()
    browser.find(".explorer [aria-label='previous step']").click()
    browser.wait(f"{program}.includes('T.grid(2, 16, 128, 64)')")
    browser.find(".explorer .measure").click()
    browser.wait(
        "document.querySelector('.explorer .estimate').textContent.includes('measured')", 60
    )
    browser.find(".explorer [data-tab=asm]").click()
    browser.wait("document.querySelectorAll('.explorer .details .row').length > 10", 60)
    browser.picture("jupyterlab")
    assert (tmp_path / "x.html").exists()


def test_a_trial_of_a_run_is_opened_and_edited(browser: Browser, notebooks: str) -> None:
    run_cell(browser, f"{notebooks}/run.ipynb", "document.querySelector('.points tbody button')")
    browser.find(".points tbody tr:nth-child(8) button").click()
    browser.wait("document.querySelector('.explorer .program .row')")
    measured = "document.querySelector('.explorer .estimate').textContent"
    assert browser.run(measured).endswith("measured 10 us")
    edit_a_tile(browser, "1")
    browser.wait(f"!{measured}.includes('measured')")
    browser.find(".explorer .measure").click()
    browser.wait(f"{measured}.includes('measured')", 60)
    browser.picture("jupyterlab-run")
