"""What graph functions mean, by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from graph_modules import module_of

from tensorir import IRTypeError, IRValueError
from tensorir.interp import InterpreterError
from tensorir.interp.graphs import interpret_graph

X = np.arange(4, dtype="float32")


def test_calls_give_values_and_leave_arguments_alone():
    mod = module_of("""
        @R.function
        def main(x: F4):
            cls = Module
            a = R.call_tir_inplace(cls.increment, (x,), inplace_indices=[0], out_sinfo=F4)
            pair = R.call_tir(cls.both, (a,), out_sinfo=[F4, F4])
            high = pair[0]
            y = R.call_tir(cls.add, (x, high), out_sinfo=F4)
            return (y, pair)
    """)
    kept = X.copy()
    y, (high, low) = interpret_graph(mod, "main", X)
    assert y.tolist() == [2.0, 4.0, 6.0, 8.0]
    assert high.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert low.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert X.tolist() == kept.tolist()


def test_library_functions_are_given():
    mod = module_of("""
        @R.function(pure=False)
        def main(x: F4):
            a = R.call_dps_packed("negate", (x,), out_sinfo=F4)
            b: F4 = R.call_packed("shift", a, sinfo_args=(F4,))
            return b
    """)
    library = {
        "negate": lambda a, out: np.negative(a, out=out),
        "shift": lambda a: a + 1,
    }
    result = interpret_graph(mod, "main", X, library=library)
    assert result.tolist() == [1.0, 0.0, -1.0, -2.0]
    with pytest.raises(InterpreterError, match=r"main calls negate, but the library has \[\]"):
        interpret_graph(mod, "main", X)


RECURSIVE = module_of("""
    @R.function
    def main(x: F4, stop: R.Tensor((), "bool")) -> F4:
        cls = Module
        y = R.call_tir(cls.double, (x,), out_sinfo=F4)
        if stop:
            z = y
        else:
            z: F4 = cls.main(y, R.const(True, "bool"))
        return z
""")


def test_branches_and_recursion():
    assert interpret_graph(RECURSIVE, "main", X, np.array(True)).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert interpret_graph(RECURSIVE, "main", X, np.array(False)).tolist() == [0.0, 4.0, 8.0, 12.0]
    with pytest.raises(InterpreterError, match=r"the calls are nested 1 deep: \.\.\. main -> main"):
        interpret_graph(RECURSIVE, "main", X, np.array(False), max_depth=1)


SYMBOLIC = module_of("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n + 1",), "float32")):
        n = T.int64()
        m = T.int64()
        cls = Module
        a = R.call_tir(cls.double_any, (x,), out_sinfo=R.Tensor((n,), "float32"))
        b = R.match_cast(y, R.Tensor((m,), "float32"))
        c = R.call_tir(cls.double_any, (b,), out_sinfo=R.Tensor((m,), "float32"))
        return (a, c, R.shape([n, m]))
""")


def test_sizes_follow_from_arguments_and_casts():
    a, c, shape = interpret_graph(SYMBOLIC, "main", X, np.ones(5, "float32"))
    assert a.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert c.tolist() == [2.0] * 5
    assert shape == (4, 5)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X,), IRTypeError, r"main takes 2 argument\(s\), got 1"),
        (
            (X, X.astype("int32")),
            IRTypeError,
            "argument y of main has dtype int32, expected float32",
        ),
        ((X, X), IRValueError, "argument y of main has extent 4 in dimension 0, expected 5"),
        (
            (X.reshape(2, 2), X),
            IRValueError,
            r"argument x of main has 2 dimension\(s\), expected 1",
        ),
        ((X, 3), IRTypeError, "argument y of main must be an array, got int"),
    ],
)
def test_arguments_that_do_not_fit_are_named(args, error, message):
    with pytest.raises(error, match=message):
        interpret_graph(SYMBOLIC, "main", *args)


def test_a_cast_that_does_not_hold_is_an_error():
    mod = module_of("""
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            y = R.match_cast(x, F4)
            return y
    """)
    with pytest.raises(IRValueError, match="y of main has extent 3 in dimension 0, expected 4"):
        interpret_graph(mod, "main", X[:3])
