"""What object code says about itself."""

import json

import pytest

import codegen
from codegen.errors import LinkError
from codegen.signature import ModuleInfo, read_object_code
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
    info, _ = read_object_code(codegen.compile_object(parse(COPY)))
    found: dict[str, object] = json.loads(info.to_json())
    return found


def test_a_description_of_another_format_is_refused() -> None:
    with pytest.raises(LinkError, match=r"format 99 .* compile it again"):
        ModuleInfo.from_json(json.dumps(description() | {"version": 99}))


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_what_is_no_compiled_module_is_refused(cut: int) -> None:
    data = codegen.compile_object(parse(COPY))
    with pytest.raises(LinkError, match=r"not an archive .*compile the program again"):
        codegen.Module.from_object(data[:cut])
