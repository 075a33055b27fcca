"""Dask, which is imported where it is needed: it is an optional package."""

from __future__ import annotations

import importlib
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


def security_of(ca_file: str | None = None, cert: str | None = None, key: str | None = None) -> Any:
    """Return how connections are secured: by TLS with these files, not at all without any.

    The files are the certificate of the authority that all sides trust, the own certificate and
    its key. TuningError if only some are given.
    """
    files = (ca_file, cert, key)
    if not any(files):
        return None
    if not all(files):
        raise TuningError(
            "TLS needs three files: the certificate of the authority, a certificate and its key"
        )
    roles = ("client", "worker", "scheduler")
    certificates = {f"tls_{role}_cert": cert for role in roles}
    keys = {f"tls_{role}_key": key for role in roles}
    return dask_distributed().Security(
        require_encryption=True, tls_ca_file=ca_file, **certificates, **keys
    )
