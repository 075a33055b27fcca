"""Operators of other tools are tuned as they are: a random candidate of each is right.

The programs are those of `tests/vectors/operators.json.gz` (see `test_texts_of_tvm`) and of
`tensorir.workloads`. Left out are those that leave sizes open or call functions that are not here,
those of 8-bit floats, which no CPU computes with, and some that take seconds to build.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

import search as ms
from tensorir import parse, workloads
from tensorir.function import PrimFunc

FILE = Path(__file__).parents[1] / "vectors" / "operators.json.gz"
TARGET = "llvm -mcpu=x86-64-v2 -num-cores=1"
ONE = ms.TuneConfig(1, strategy="replay-trace", num_confirmed=0)
CHEAP = {"cost_model": "random", "database": "memory", "seed": 1}

TOPI = """
argmax.last binarize_pack bitserial_dense correlation cumsum depth_to_space dft
dilation2d fast_softmax fast_tanh fixed_point_multiply layout_transform lrn matrix_set_diag pool_grad
scatter searchsorted sequence_mask shape strided_set upsampling
"""
RELAX = """
adaptive_avg_pool1d bucketize cross_entropy dynamic_strided_slice floor_mod.i32 gather_nd.b
index_put.acc nll_loss.mean roi_pool scatter_nd.update std.all take.nan take.wrap
"""
OPERATORS = [
    *(f"te.{name}" for name in ("argmax", "argmax64", "attrs", "triangle")),
    *(f"topi.{name}" for name in TOPI.split()),
    *(f"relax.{name}" for name in RELAX.split()),
]
SMALL = {
    "C1D": {"l": 16, "ci": 4, "co": 4},
    "C2D": {"h": 12, "w": 12, "co": 4},
    "C3D": {"d": 4, "h": 8, "w": 8, "co": 4, "kernel": 3, "padding": 1},
    "CAP": {"h": 4, "w": 4, "ci": 4, "co": 4},
    "CBR": {"h": 12, "w": 12, "co": 4},
    "DEP": {"h": 8, "w": 8, "c": 4},
    "DIL": {"h": 16, "w": 16, "co": 4},
    "GMM": {"n": 8, "m": 8, "k": 8},
    "GRP": {"h": 8, "w": 8, "ci": 8, "co": 8},
    "NRM": {"m": 8, "n": 8},
    "SFM": {"m": 4, "n": 8},
    "T2D": {"ci": 4, "co": 4},
    "TBG": {"length": 8, "heads": 2, "dim": 8},
}


@cache
def programs() -> dict[str, str]:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        texts: dict[str, str] = json.load(file)["programs"]
    return texts


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_tuned(name: str, measured: dict[str, object], tmp_path: Path) -> None:
    func = parse(programs()[name])
    assert isinstance(func, PrimFunc)
    assert ms.tune_tir(func, TARGET, ONE, tmp_path, **CHEAP, **measured) is not None


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_workload_is_tuned(name: str, measured: dict[str, object], tmp_path: Path) -> None:
    func = workloads.create(name, **SMALL[name])
    assert ms.tune_tir(func, TARGET, ONE, tmp_path, **CHEAP, **measured) is not None
