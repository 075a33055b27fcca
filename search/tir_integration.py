"""Tuning of tensor programs with the module name and the signatures of TVM.

`tune_tir(mod, target, work_dir, max_trials_global, ...)` tunes every function of a module and
returns the database; the `tune_tir` of the package `search` tunes one function by a `TuneConfig`.
"""

from search.tune import compile_tir
from search.tune import tune_module as tune_tir

__all__ = ["compile_tir", "tune_tir"]
