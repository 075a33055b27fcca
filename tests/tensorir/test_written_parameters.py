"""Which of its parameters a function writes, and who may pass what."""

from __future__ import annotations

import pytest

from tensorir import parse
from tensorir.errors import DiagnosticError
from tensorir.function import IRModule
from tensorir.memory.written_parameters import written_parameters


def written(text: str) -> list[str]:
    program = parse(text)
    assert isinstance(program, IRModule)
    func = program.prim_func("main")
    return [func.buffer_map[param].name for param in written_parameters(func, program)]


@pytest.mark.parametrize(
    "body",
    [
        "B[0] = A[0]",
        """for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                T.reads(A[v])
                T.writes(B[v])
                view = T.match_buffer(B[v : v + 1], (1,), offset_factor=1)
                view[0] = A[v]""",
        """q: T.handle("float32") = B.data
        view = T.Buffer((4,), data=q)
        view[0] = A[0]""",
        'T.call_packed("f", A.access_ptr("r"), B.access_ptr("w"))',
        "M.callee(B.data)",
    ],
)
def test_parameters_that_are_written(body: str) -> None:
    text = f"""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def callee(C: T.Buffer((4,))):
        C[0] = T.float32(1)
    @T.prim_func
    def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
        {body}
"""
    assert written(text) == ["B"]


GRAPH = """
@I.ir_module
class M:
    @T.prim_func
    def count(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                A[v] = A[v] + T.float32(1)
                B[v] = A[v]
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        cls = M
        BODY
        return y
"""


def test_call_tir_of_a_function_that_writes_its_input() -> None:
    call = 'y = R.call_tir(cls.count, (x,), out_sinfo=R.Tensor((4,), "float32"))'
    message = (
        'binding "y" of function "main": "count" writes to its parameter A, which gets argument 0:'
        ".*R.call_tir_inplace with 0 among the inplace_indices"
    )
    with pytest.raises(DiagnosticError, match=message):
        parse(GRAPH.replace("BODY", call))


def test_call_tir_inplace_of_a_function_that_writes_its_input() -> None:
    both = "[R.Tensor((4,), dtype='float32'), R.Tensor((4,), dtype='float32')]"
    call = f"y = R.call_tir_inplace(cls.count, (x,), out_sinfo={both}, inplace_indices=[0, -1])"
    parse(GRAPH.replace("BODY", call))


@pytest.mark.parametrize(
    "body",
    [
        "y = R.const([1, 2, 3, 4], 'float32')\n        _ = cls.count(y, x)",
        "y = x\n        _ = cls.count(R.const([1, 2, 3, 4], 'float32'), x)",
        "t = (x, R.const([1, 2, 3, 4], 'float32'))\n        y = t[1]\n        _ = cls.count(y, x)",
    ],
)
def test_a_call_that_writes_a_constant(body: str) -> None:
    with pytest.raises(DiagnosticError, match='function "main": a call writes to the constant'):
        parse(GRAPH.replace("BODY", body))
