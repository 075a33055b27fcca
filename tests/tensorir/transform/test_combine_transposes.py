"""Transposes that undo one another go, with element-wise calls between them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import relax, te, verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.relax import op
from tensorir.transform import (
    CanonicalizeBindings,
    CombineTransposes,
    DeadCodeElimination,
    LegalizeOps,
    Sequential,
)

COMBINE = Sequential([CombineTransposes(), CanonicalizeBindings(), DeadCodeElimination()])
RNG = np.random.default_rng(0)


def constant(*shape):
    return relax.const(RNG.random(shape).astype("float32"))


def combined(formula, *shapes):
    """Return the tensor functions that are called after combining, which keeps results."""
    params = [
        relax.Var(f"x{k}", relax.TensorStructInfo(s, "float32")) for k, s in enumerate(shapes)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            y = bb.emit_output(formula(*params))
        bb.emit_func_output(y)
    mod = LegalizeOps()(bb.get())
    after = COMBINE(mod)
    assert verify_well_formed(after)
    sizes = [[3 if n is N else n for n in shape] for shape in shapes]
    args = [RNG.random(size).astype("float32") for size in sizes]
    np.testing.assert_array_equal(
        interpret_graph(mod, "main", *args), interpret_graph(after, "main", *args)
    )
    values = [binding.value for binding in after["main"].body.bindings]
    return [v.args[0].name.rstrip("0123456789") for v in values if isinstance(v, relax.Call)]


def there(x):
    return op.permute_dims(x, (0, 2, 3, 1))


def back(x):
    return op.permute_dims(x, (0, 3, 1, 2))


IMAGE = (2, 4, 5, 3)
N = te.var("n", "int64")


@pytest.mark.parametrize(
    ("formula", "shapes", "expected"),
    [
        (lambda x: op.exp(back(there(x))), [IMAGE], ["exp"]),
        (lambda x: op.exp(there(there(x))), [IMAGE], ["exp", "transpose"]),
        (lambda x: back(op.exp(there(x))), [IMAGE], ["exp"]),
        (lambda x: back(op.exp(there(x))), [(N, 4, 5, 3)], ["exp"]),
        (lambda x: back(op.clip(there(x), 0.0, 0.5) + constant(4)), [IMAGE], ["clip", "add"]),
        (lambda x: back(there(x) * constant(2, 5, 3, 4)), [IMAGE], ["multiply"]),
        (lambda x: back(there(x) + there(x)), [(1, 4, 5, 3)], ["add"]),
        (lambda x, y: back(op.exp(there(x)) + there(y)), [IMAGE, IMAGE], ["exp", "add"]),
        # One operand would have to be transposed for the other's sake.
        (lambda x, y: there(x) + y, [IMAGE, (2, 5, 3, 4)], ["permute_dims", "add"]),
        (lambda x: op.nn.softmax(there(x)), [IMAGE], ["permute_dims", "softmax"]),
    ],
)  # fmt: skip
def test_what_is_left_of_transposes(formula, shapes, expected):
    assert combined(formula, *shapes) == expected
