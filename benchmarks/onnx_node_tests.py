"""The node tests of ONNX: which operators give what ONNX says they give.

    python -m benchmarks.onnx_node_tests                 # all: passed by operator, and why not
    python -m benchmarks.onnx_node_tests Resize Pad      # those of some operators
    python -m benchmarks.onnx_node_tests --write         # and writes docs/onnx.md and the list
    python -m benchmarks.onnx_node_tests --check         # those of the list; fails if one does

Each test is a model of one operator (or of the functions that define it) with inputs and outputs;
it is imported, compiled and run in a separate process. Takes the package onnx.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.forked_runs import Report, run_all
from codegen.history import default_schedules
from codegen.runtime.array_view import NAMES_OF_ML_DTYPES
from codegen.runtime.ndarray import cpu
from codegen.vm.build import vm_build
from codegen.vm.machine import VirtualMachine
from tensorir import frontend
from tensorir.nodes.dtype import DataType
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tensorir.transform import LegalizeOps

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "tensorir" / "frontend" / "onnx_node_tests.txt"
PAGE = ROOT / "docs" / "onnx.md"
TARGET = "llvm -opt-level=1"
"""The target of models: fast compilation, since each runs a few times only."""


class Case(NamedTuple):
    """A node test."""

    name: str
    operator: str
    case: Any


class Result(NamedTuple):
    """The result of a test: `reason` is empty if it passed."""

    case: Case
    reason: str
    detail: str


def load_cases(operators: Iterable[str] = ()) -> list[Case]:
    """Return the node tests of operators, all without any, in their order."""
    from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    found = [Case(test.name, _operator(test), test) for test in tests]
    wanted = set(operators)
    return [c for c in found if not wanted or c.operator in wanted or c.name in wanted]


def _operator(test: Any) -> str:
    """Return the operator that a test is about: the one node, or the name of what is expanded."""
    if "expanded" not in test.name:
        nodes = test.model.graph.node
        node = next((n for n in reversed(nodes) if n.op_type != "Constant"), nodes[-1])
        return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)
    return _by_prefix(test.name)


def _by_prefix(name: str) -> str:
    """Return the operator whose name a test of an expanded function begins with."""
    import onnx.defs  # noqa: PLC0415

    words = name.removeprefix("test_").replace("_", "").lower()
    names = {s.name.lower(): s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}
    names.update({"sce": "SoftmaxCrossEntropyLoss", "nllloss": "NegativeLogLikelihoodLoss"})
    names.update({"mvn": "MeanVarianceNormalization", "sequencemap": "SequenceMap"})
    fitting = [short for short in names if words.startswith(short)]
    return names[max(fitting, key=len)] if fitting else name


def run_case(case: Any) -> None:
    """Run a test; raises what goes wrong, AssertionError for other outputs."""
    from onnx.backend.test.runner import Runner  # noqa: PLC0415

    run = _compiled(case.model)
    for inputs, expected in case.data_sets:
        with np.errstate(all="ignore"):
            outputs = run([_value(value) for value in inputs])
        expected = [_value(value) for value in expected]
        Runner.assert_similar_outputs(expected, outputs, case.rtol, case.atol)


def _compiled(model: Any) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a model as a function from inputs to outputs, both NumPy arrays."""
    from tensorir.frontend.onnx.dtypes import narrow_integer  # noqa: PLC0415

    mod = LegalizeOps()(frontend.from_onnx(model))
    main = mod["main"]
    assert isinstance(main, Function)
    info = main.ret_struct_info
    several = len(model.graph.output) > 1 and isinstance(info, TupleStructInfo)
    infos = info.elements if several and isinstance(info, TupleStructInfo) else (info,)
    narrow = [narrow_integer(out.type.tensor_type.elem_type) for out in model.graph.output]
    compiled = VirtualMachine(vm_build(mod, TARGET), cpu())["main"]

    def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
        result = compiled(*map(_argument, inputs))
        outputs = map(_output, result if several else (result,), infos)
        return tuple(
            output
            if dtype is None
            else output.astype(getattr(import_module("ml_dtypes"), dtype.name))
            for output, dtype in zip(outputs, narrow, strict=True)
        )

    return run


def _argument(value: Any) -> Any:
    """Return an input as a model accepts it: numbers of dtypes that NumPy lacks as their bits."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_argument, value))
    if value is None:
        return None
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.name in ("int4", "int2", "uint4", "uint2"):
        return array.astype(array.dtype.name[:-1] + "8")
    if array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1:
        return array
    return array.view(
        DataType(NAMES_OF_ML_DTYPES.get(array.dtype.name, array.dtype.name)).to_numpy()
    )


def _output(value: Any, info: StructInfo) -> Any:
    """Return an output in the form that ONNX's tools compare."""
    if isinstance(value, (list, tuple)):
        infos = info.elements if isinstance(info, TupleStructInfo) else [info] * len(value)
        return [_output(v, i) for v, i in zip(value, infos, strict=True)]
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    dtype = info.dtype if isinstance(info, TensorStructInfo) else None
    name = next((n for n, known in NAMES_OF_ML_DTYPES.items() if known == dtype), None)
    return array if name is None else array.view(getattr(import_module("ml_dtypes"), name))


def _value(value: Any) -> Any:
    """Return a value of a test, which may be a message."""
    from onnx import TensorProto, numpy_helper  # noqa: PLC0415

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _task(case: Case) -> Any:
    def run(report: Report) -> None:
        warnings.simplefilter("ignore")
        try:
            run_case(case.case)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is to be reported
            report(what=type(error).__name__, detail=str(error))
        else:
            report(what="")

    return run


def run_cases(cases: Sequence[Case], processes: int = 2, time_limit: float = 60.0) -> list[Result]:
    """Run tests in processes; the results are in the order of the tests."""
    default_schedules()  # once, before processes are forked
    Operator.names()
    results: dict[str, Result] = {}
    for run in run_all([(case, _task(case)) for case in cases], processes, time_limit):
        assert run.outcome is not None
        results[run.key.name] = Result(run.key, run.outcome.what, run.outcome.detail)
    return [results[case.name] for case in cases]


def reason(result: Result) -> str:
    """Return why a test failed, in a form that is the same for tests that fail alike."""
    if result.reason == "AssertionError":
        return "other values" if "Mismatch" in result.detail else "other shapes or dtypes"
    lines = [line.strip() for line in result.detail.splitlines() if line.strip()]
    text = lines[-1] if lines and lines[0].endswith("not supported:") else "".join(lines[:1])
    text = re.sub(r"^node '[^']*' ", "", text)
    text = re.sub(r": \d+ node\(s\).*", " is not supported", text)
    return f"{result.reason}: {text[:160]}"


def table(results: Sequence[Result]) -> str:
    """Return the table of operators: how many of their tests pass, and why the others do not."""
    by_operator: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_operator[result.case.operator].append(result)
    rows = ["| operator | passed | of | the others |", "| --- | --: | --: | --- |"]
    for name, own in sorted(by_operator.items()):
        failed = Counter(reason(r).replace("|", "/") for r in own if r.reason)
        why = "; ".join(f"{text} ({count})" for text, count in failed.most_common(3))
        rows.append(f"| {name} | {len(own) - failed.total()} | {len(own)} | {why} |")
    return "\n".join(rows)


def main() -> None:
    """Run node tests and print what passes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="operators or tests; all without any")
    parser.add_argument("--write", action="store_true", help="write docs/onnx.md and the list")
    parser.add_argument("--check", action="store_true", help="run the listed tests")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--details", action="store_true", help="print each failure")
    args = parser.parse_args()
    names = LIST.read_text().split() if args.check else args.names
    results = run_cases(load_cases(names), args.processes)
    passed = [r.case.name for r in results if not r.reason]
    if args.details:
        for r in results:
            if r.reason:
                print(f"{r.case.name}: {r.reason}: {r.detail[:1500]}")
    print(table([r for r in results if r.reason]))
    for text, count in Counter(reason(r) for r in results if r.reason).most_common(40):
        print(f"{count:5d} {text}")
    print(f"{len(passed)} of {len(results)} passed")
    if args.check and len(passed) < len(results):
        raise SystemExit(1)
    if args.write and not names:
        LIST.write_text("\n".join(sorted(passed)) + "\n")
        head = PAGE.read_text().split("<!-- table -->")[0]
        PAGE.write_text(
            f"{head}<!-- table -->\n\n{len(passed)} of {len(results)} pass.\n\n{table(results)}\n"
        )


if __name__ == "__main__":
    main()
