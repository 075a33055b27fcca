"""A search that is followed: its files are read again and again, and pages are told what is new."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from search.reports.page.chart_data import rows_of, tasks_of
from search.reports.page.page import PARTS, page
from search.reports.page.watched_search import WatchedSearch
from search.reports.page.winners import ShownWinner
from search.reports.page.written_report import title_of
from tensorir.errors import TensorIRError

T = TypeVar("T")

POLL_SECONDS: Final = 0.5
_PARTS_SECONDS: Final = 3.0
"""The least time between two versions of a table, which is made as a whole."""
_SHARE: Final = 0.01
"""The share of a core that making one table may take, of a large search."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds after which it is made whatever it takes."""
_ALIVE_SECONDS: Final = 15.0
_TASKS: Final = "the tasks"

logger = logging.getLogger("tensorir.search")


class _Pace:
    """Something that is made anew as the search goes on, as often as its cost allows."""

    def __init__(self) -> None:
        self._of: object = None
        self._next = 0.0

    def made(self, of: object, make: Callable[[], T]) -> T | None:
        """Return what is made of something; None if that is as it was, or if it is too early."""
        if of == self._of or time.monotonic() < self._next:
            return None
        began = time.thread_time()
        result = make()
        spent = time.thread_time() - began
        self._of = of
        pause = min(max(_PARTS_SECONDS, spent / _SHARE), _LONGEST_PAUSE)
        self._next = time.monotonic() + pause
        return result


class FollowedSearch:
    """What is known of a search, kept up to date by one thread for all who ask."""

    def __init__(self, search: WatchedSearch) -> None:
        self._search = search
        self._changed = threading.Condition()
        self._made: dict[str, str] = {}
        """The tables of the page by their ids, and the tasks; another object as soon as one is."""
        self._life = 0
        """How often the files were replaced."""
        self._paces: defaultdict[str, _Pace] = defaultdict(_Pace)
        self._winners: dict[int, ShownWinner] = {}
        self._generation = 0
        """How often the winners were looked for."""
        self._listeners = 0
        self.over = threading.Event()

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self._search.trials)

    def start(self) -> None:
        """Begin to follow the files."""
        threading.Thread(target=self._follow, daemon=True).start()

    def end(self) -> None:
        """End following, and all events."""
        self.over.set()
        with self._changed:
            self._changed.notify_all()

    def _follow(self) -> None:
        while not self.over.wait(POLL_SECONDS):
            try:
                self._catch_up()
            except (TensorIRError, OSError) as error:
                logger.warning("The live report waits: %s", error)
                self.over.wait(_PARTS_SECONDS)

    def _catch_up(self) -> None:
        search = self._search
        with self._changed:
            before = len(search.trials)
            if not search.catch_up():
                self._life += 1
            if len(search.trials) != before:
                self._changed.notify_all()
        if self._listeners:
            self._remake()

    def _remake(self) -> None:
        """Make anew what has changed and may be made again, for those who look at the page."""
        search = self._search
        of = (len(search.trials), len(search.tasks), search.is_unfinished, tuple(search.notes))
        winners = self._paces["the winners"].made(of, search.winners)
        if winners is not None:
            self._winners = winners
            self._generation += 1
        whole = (of, self._generation)
        makes: dict[str, Callable[[], str]] = {
            name: partial(make, search, self._winners) for name, make in PARTS.items()
        }
        makes[_TASKS] = lambda: json.dumps(tasks_of(search.tasks, self._winners))
        made = {name: self._paces[name].made(whole, make) for name, make in makes.items()}
        news = {name: text for name, text in made.items() if text is not None}
        with self._changed:
            if {**self._made, **news} != self._made:
                self._made = {**self._made, **news}
                self._changed.notify_all()

    def page(self) -> str:
        """Return the page as it is now."""
        with self._changed:
            return page(self._search, self._winners, title=title_of(self._search), live=True)

    def events(self, have: int) -> Iterator[str]:
        """Yield what a page that has so many trials has to be told, as server-sent events.

        A comment says that there is nothing new, so that a page that was closed is found out.
        """
        with self._changed:
            self._listeners += 1
        try:
            yield from self._news(have)
        finally:
            with self._changed:
                self._listeners -= 1

    def _news(self, have: int) -> Iterator[str]:
        told: dict[str, str] = {}
        life = self._life
        while not self.over.is_set():
            news: list[str] = []
            with self._changed:
                if len(self._search.trials) <= have and self._made is told:
                    self._changed.wait(_ALIVE_SECONDS)
                trials, made = self._search.trials, self._made
                is_other = life != self._life or have > len(trials)
                changed = {name: text for name, text in made.items() if told.get(name) != text}
                told = made
                if _TASKS in changed:
                    news.append(_event("tasks", changed.pop(_TASKS), have))
                if len(trials) > have:
                    rows = rows_of(self._search.tasks, range(have, len(trials)))
                    have = len(trials)
                    news.append(_event("rows", json.dumps(rows), have))
                if changed:
                    news.append(_event("parts", json.dumps(changed), have))
            if is_other:
                yield _event("reload", "", 0)
                return
            yield "".join(news) or ": nothing new\n\n"


def _event(name: str, text: str, have: int) -> str:
    """Return a server-sent event; JSON has no line breaks, so that one line of data is enough."""
    return f"id: {have}\nevent: {name}\ndata: {text}\n\n"
