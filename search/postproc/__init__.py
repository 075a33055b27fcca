"""Postprocessors, which complete or reject a sampled schedule."""

from search.postproc.postproc import Postproc, PyPostproc

__all__ = ["Postproc", "PyPostproc"]
