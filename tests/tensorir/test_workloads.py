"""The operator suite: programs as published, results as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import IRValueError, assert_structural_equal, parse, verify_well_formed
from tensorir.interp import interpret
from tensorir.workloads import WORKLOADS, create, get
from tests.recorded import RECORDED, recorded

PUBLISHED = {
    **{f"{name}[0]": (name, {}) for name in WORKLOADS},
    "c1d": ("C1D", {"l": 16, "ci": 8, "co": 8, "stride": 1}),
    "c2d": ("C2D", {"h": 8, "w": 8, "ci": 4, "co": 8, "kernel": 3, "stride": 1, "padding": 1}),
    "cap": ("CAP", {"h": 6, "w": 6, "ci": 2, "co": 2, "stride": 1}),
    "cbr": ("CBR", {"h": 8, "w": 8, "ci": 4, "co": 8, "kernel": 3, "stride": 1, "padding": 1}),
    "dep": ("DEP", {"h": 8, "w": 8, "c": 8}),
    "nrm": ("NRM", {"b": 2, "m": 16, "n": 16}),
    "sfm": ("SFM", {"m": 16, "n": 32}),
    "t2d": ("T2D", {"ci": 8, "co": 4}),
    "tbg": ("TBG", {"length": 8, "heads": 2, "dim": 16}),
}
"""Names of programs in the vectors: workload and changes of its first configuration."""

SMALL = [
    ("C1D", {"n": 2, "l": 12, "ci": 4, "co": 6, "dilation": 2}),
    ("C1D", {"l": 9, "ci": 4, "co": 6, "groups": 2}),
    ("C2D", {"h": 9, "w": 8, "ci": 3, "co": 5, "kernel": 3, "padding": 1}),
    ("C2D", {"h": 6, "w": 7, "ci": 3, "co": 5, "kernel": 1, "stride": 1, "padding": 0}),
    ("C3D", {"d": 4, "h": 5, "w": 6, "ci": 2, "co": 3, "kernel": 3, "padding": 1}),
    ("GMM", {"b": 2, "n": 5, "m": 7, "k": 9}),
    ("GRP", {"h": 6, "w": 7, "ci": 8, "co": 12}),
    ("DIL", {"h": 9, "w": 8, "ci": 3, "co": 4, "kernel": 3, "padding": 1}),
    ("DEP", {"h": 7, "w": 6, "c": 5}),
    ("DEP", {"h": 7, "w": 6, "c": 3, "factor": 2, "stride": 2, "dilation": 2}),
    ("T2D", {"h": 3, "w": 4, "ci": 5, "co": 3}),
    ("T2D", {"h": 3, "w": 4, "ci": 2, "co": 3, "kernel": 3, "stride": 1}),
    ("T2D", {"h": 3, "w": 4, "ci": 2, "co": 3, "kernel": 5, "stride": 3, "padding": 0}),
    ("CAP", {"h": 6, "w": 5, "ci": 2, "co": 3}),
    ("CAP", {"h": 4, "w": 4, "ci": 2, "co": 3, "capsule": 2}),
    ("NRM", {"b": 3, "m": 7, "n": 5}),
    ("SFM", {"m": 5, "n": 11}),
    ("CBR", {"h": 9, "w": 8, "ci": 3, "co": 4, "kernel": 3, "padding": 1}),
    ("CBR", {"h": 9, "w": 8, "ci": 3, "co": 4, "kernel": 3, "padding": 2, "dilation": 2}),
    ("TBG", {"batch": 2, "length": 5, "heads": 3, "dim": 4}),
]


def published():
    found = {}
    for name in RECORDED:
        for entry in recorded(name):
            if entry["workload"] in PUBLISHED:
                found[entry["workload"]] = entry["before"]
    return [pytest.param(name, text, id=name) for name, text in found.items()]


@pytest.mark.parametrize(("name", "text"), published())
def test_programs_are_the_published_ones(name, text):
    workload, changes = PUBLISHED[name]
    func = create(workload, **changes)
    assert_structural_equal(func, parse(text))
    assert func.script(dialect="tvm") == text


def arrays(func, seed=0):
    """Return inputs in [-1, 1) and an output that is nowhere a result."""
    rng = np.random.default_rng(seed)
    shapes = [[int(n) for n in func.buffer_map[p].shape] for p in func.params]
    inputs = [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes[:-1]]
    return inputs, np.full(shapes[-1], np.nan, "float32")


@pytest.mark.parametrize(("name", "changes"), SMALL)
def test_machine_code_computes_what_numpy_does(name, changes):
    func = create(name, **changes)
    verify_well_formed(func)
    inputs, output = arrays(func)
    codegen.build(func, target="llvm -num-cores=1")["main"](*inputs, output)
    expected = get(name).expected(*inputs, **changes)
    assert expected.dtype == output.dtype
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


TINY = {
    "C1D": {"l": 5, "ci": 2, "co": 2},
    "C2D": {"h": 4, "w": 3, "ci": 2, "co": 2, "kernel": 3, "padding": 1},
    "C3D": {"d": 3, "h": 3, "w": 3, "ci": 1, "co": 2, "kernel": 2, "padding": 1},
    "GMM": {"n": 3, "m": 4, "k": 5},
    "GRP": {"h": 3, "w": 3, "ci": 4, "co": 4},
    "DIL": {"h": 5, "w": 5, "ci": 1, "co": 2, "kernel": 2, "padding": 1},
    "DEP": {"h": 4, "w": 3, "c": 2},
    "T2D": {"h": 2, "w": 2, "ci": 2, "co": 2},
    "CAP": {"h": 3, "w": 3, "ci": 1, "co": 1, "capsule": 2},
    "NRM": {"b": 2, "m": 3, "n": 4},
    "SFM": {"m": 3, "n": 4},
    "CBR": {"h": 3, "w": 3, "ci": 2, "co": 2, "kernel": 3, "padding": 1},
    "TBG": {"length": 3, "heads": 2, "dim": 4},
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_interpreter_computes_what_numpy_does(name):
    func = create(name, **TINY[name])
    inputs, output = arrays(func)
    interpret(func, *inputs, output)
    expected = get(name).expected(*inputs, **TINY[name])
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_configuration_is_a_function(name):
    for idx in range(len(get(name).configurations)):
        func = create(name, idx)
        verify_well_formed(func)
        assert_structural_equal(parse(func.script()), func)


def test_names_indices_and_parameters_that_do_not_exist():
    with pytest.raises(IRValueError, match="unknown workload 'XYZ'; the workloads are C1D, C2D"):
        create("XYZ")
    with pytest.raises(IRValueError, match="GMM has configurations 0 to 3, there is no 4"):
        create("GMM", 4)
    with pytest.raises(IRValueError, match=r"GMM has no parameter rows; it has b, n, m, k"):
        create("GMM", rows=3)
