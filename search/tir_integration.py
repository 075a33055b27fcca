"""Tuning of tensor programs, under the module name that TVM gives it."""

from search.tune import compile_tir, tune_tir

__all__ = ["compile_tir", "tune_tir"]
