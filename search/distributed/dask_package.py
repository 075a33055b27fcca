"""Dask, which is imported where it is needed: it is an optional package."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from search.errors import TuningError


def dask_distributed() -> Any:
    """Return the package `distributed`; TuningError with what to install if it is not there."""
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise TuningError(
            "measuring on other machines needs Dask, which is not installed: "
            'pip install "tensorir[distributed]"'
        ) from error


@cache
def server_class(name: str) -> Any:
    """Return Dask's `Scheduler` or `Worker` without its HTTP server, which asks for no login.

    What is left is one port, which speaks TLS.
    """
    no_server = {"start_http_server": lambda *_, **__: None}
    return type(name, (getattr(dask_distributed(), name),), no_server)


def dask_address(text: str) -> str:
    """Return the address by which Dask knows the scheduler at `dask://host:port`.

    TuningError for anything else, but that address itself.
    """
    scheme, _, place = text.partition("://")
    try:
        host, port = dask_distributed().comm.parse_host_port(place)
        if scheme in ("dask", "tls") and host and port:
            return f"tls://{place}"
    except ValueError:
        pass
    plain = "connections are always encrypted; " * (scheme == "tcp")
    raise TuningError(
        f"{text!r} is no address of a scheduler: {plain}give the one that `tensorir scheduler` "
        "prints, as in dask://host:8786"
    )
