"""What object code says about itself."""

import json

import pytest

import codegen
from codegen.errors import LinkError
from codegen.signature import ModuleInfo
from tensorir import parse

COPY = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
"""


def description() -> dict[str, object]:
    data = codegen.compile_object(parse(COPY))
    start = data.index(b'{"version":')
    found: dict[str, object] = json.loads(data[start : data.index(b"\0", start)])
    return found


def test_a_description_of_the_format_before_is_read() -> None:
    """It knows nothing of library functions."""
    now = description()
    before = {key: value for key, value in now.items() if key != "library"} | {"version": 2}
    assert ModuleInfo.from_json(json.dumps(before)) == ModuleInfo.from_json(json.dumps(now))


def test_a_description_of_another_format_is_refused() -> None:
    with pytest.raises(LinkError, match=r"format 99 .* compile it again"):
        ModuleInfo.from_json(json.dumps(description() | {"version": 99}))
