"""Parts of a search are made of short names, and of URLs."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from search.kinds import Registry
from search.runner import Runner
from tensorir.errors import IRValueError


class Store:
    def __init__(self, url: str = "", size: int = 0) -> None:
        self.url, self.size = url, size


def stores() -> Registry[Store]:
    class Named(Store):
        kinds: Registry[Store] = Registry("store")

    Named.kinds.register("memory")(Store)
    Named.kinds.register("postgresql://")(Store)
    return Named.kinds


def test_a_url_is_made_by_the_maker_for_its_scheme() -> None:
    made = stores().make("postgresql://host/db", size=3)
    assert (made.url, made.size) == ("postgresql://host/db", 3)
    assert stores().make("postgresql+psycopg://host/db").url == "postgresql+psycopg://host/db"
    assert "postgresql://" in stores()
    with pytest.raises(
        IRValueError, match=r"unknown store 'mysql://\.\.\.'; expected one of memory, postg"
    ):
        stores().make("mysql://host")


def test_a_more_special_scheme_comes_first() -> None:
    kinds = stores()

    @kinds.register("postgresql+own://")
    class Own(Store):
        pass

    assert isinstance(kinds.make("postgresql+own://host"), Own)
    assert not isinstance(kinds.make("postgresql+other://host"), Own)
    with pytest.raises(IRValueError, match=r"a store called .postgresql://. is registered"):
        kinds.register("postgresql://")(Store)


def test_a_module_that_registers_a_name_is_imported_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that ask meanwhile wait."""
    (tmp_path / "registers_late.py").write_text(
        "import sys, time\n"
        "kinds, maker = sys.modules['what_a_test_registers']\n"
        "time.sleep(0.1)\n"
        "kinds.register('late')(maker)\n"
    )
    late: Registry[Store] = Registry("late store", {"late": "registers_late"})
    monkeypatch.setitem(sys.modules, "what_a_test_registers", (late, Store))  # type: ignore[arg-type]
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    threads = [threading.Thread(target=lambda: found.append("late" in late)) for _ in range(3)]
    assert "registers_late" not in sys.modules
    for thread in threads:
        thread.start()
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert found == [True] * 3


def test_runners_on_other_machines_are_listed_with_the_others() -> None:
    with pytest.raises(IRValueError, match=r"expected one of dask://\.\.\., local"):
        Runner.create("somewhere")
