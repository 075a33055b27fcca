"""The explorer in JupyterLab in a real browser: shown, a tile edited, measured, exported.

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
NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code", "source": CELL, "id": "one", "metadata": {}, "outputs": [],
            "execution_count": None,
        }
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}  # fmt: skip


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[str]:
    """The address of a notebook with the explorer."""
    (tmp_path / "x.ipynb").write_text(json.dumps(NOTEBOOK))
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
        yield f"{address}/lab/tree/x.ipynb?reset"
    finally:
        server.terminate()
        server.wait(20)


def test_a_tile_is_edited_and_measured(browser: Browser, notebook: str, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains, Keys  # noqa: PLC0415 - an extra

    browser.open(notebook, until="document.querySelector('.jp-Notebook .cm-content')")
    browser.wait("document.body.textContent.includes('| Idle')", 60)
    run = ActionChains(browser.driver)
    browser.find(".jp-Notebook .cm-content").click()
    run.key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    browser.wait("document.querySelector('.tx .program .row')", 60)
    facts = "document.querySelector('.tx .facts').textContent"
    browser.wait(f"{facts}.includes('in each iteration of')", 60)
    browser.driver.execute_script(
        "const factor = document.querySelector('.tx select');"
        "factor.value = '16'; factor.dispatchEvent(new Event('change'))"
    )
    program = "document.querySelector('.tx .program').textContent"
    browser.wait(f"{program}.includes('T.grid(2, 64, 16, 128)')")
    browser.find(".tx [aria-label='previous step']").click()
    browser.find(".tx [aria-label='previous step']").click()
    browser.wait(f"{program}.includes('T.grid(2, 16, 128, 64)')")
    browser.find(".tx .measure").click()
    browser.wait("document.querySelector('.tx .estimate').textContent.includes('measured')", 60)
    browser.find(".tx [data-tab=asm]").click()
    browser.wait("document.querySelectorAll('.tx .details .row').length > 10", 60)
    browser.picture("jupyterlab")
    assert (tmp_path / "x.html").exists()
