"""Random graphs of operators through the pipelines, against what the operators mean.

    python -m benchmarks.fuzz_operators --seconds 600
    python -m benchmarks.fuzz_operators --explain 17     # the program, and the pass that is wrong
    python -m benchmarks.fuzz_operators --special        # NaN, infinities and empty axes

What a graph means is what the interpreter says of its operators' formulas, one call each. It is
compared with the graph compiled without fusion, by the default pipeline (layouts, batch norms,
common values, fusion, views), and with the default schedules of its kernels. Results may differ by
what rounding can make of them, which the graph knows. Batches run in a process of their own, which
may die of an access out of bounds. Each failure is printed as a test. With `--special` single
operators are called for special values and empty axes (`benchmarks.special_values`), and compared
with NumPy and torch.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

import codegen
import search  # noqa: F401 (offers the default schedules)
from benchmarks.fuzz_batches import parser_of, run
from benchmarks.operator_graphs import Facts, OperatorGraph, operator_graph
from benchmarks.random_operators import Fact
from codegen.history import can_be_scheduled
from codegen.schedules import default_schedules
from codegen.target import as_target
from tensorir import relax, verify_well_formed
from tensorir.function import IRModule
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import LegalizeOps, default_pipeline

BATCH: Final = 10
SPECIAL_CASES: Final = 20
"""The calls of one seed with special values."""
TARGET: Final = "llvm"


def check(seed: int, *, guard_pages: bool = True) -> None:
    """Compile and call one random graph in several ways; AssertionError where a result differs."""
    graph = graph_of(seed)
    verify_well_formed(graph.mod)
    forms = {"the default pipeline": default_pipeline()(graph.mod)}
    if seed % 5 == 3:
        forms["default schedules"] = scheduled(forms["the default pipeline"])
    if seed % 4 == 0:
        forms["legalized operators"] = LegalizeOps()(graph.mod)
    for name, mod in forms.items():
        executable = codegen.vm_build(mod, TARGET, default_schedules=False, guard_pages=guard_pages)
        machine = codegen.VirtualMachine(executable, codegen.cpu())
        for call in range(2):
            inputs = graph.inputs(call)
            compare(machine["main"](*inputs), expected(graph, inputs), graph.facts, name)


def graph_of(seed: int) -> OperatorGraph:
    """Return the graph of a seed."""
    return operator_graph(seed, 3 + seed % 19)


def expected(graph: OperatorGraph, inputs: list[Any]) -> Any:
    """Return what a graph means for arguments."""
    return interpreted(LegalizeOps()(graph.mod), inputs)


def interpreted(mod: IRModule, inputs: list[Any]) -> Any:
    """Return what a module gives for arguments."""
    with np.errstate(all="ignore"):
        return interpret_graph(mod, "main", *(x.copy() for x in inputs))


def scheduled(mod: IRModule) -> IRModule:
    """Return a module with default schedules of all of its kernels, however small."""
    kernels = {name: func for name, func in mod.prim_funcs().items() if can_be_scheduled(func)}
    made = default_schedules().schedules_of(kernels, as_target(TARGET))
    return IRModule({**mod.functions, **made}, mod.attrs)


def compare(result: Any, wanted: Any, facts: Facts, name: str) -> None:
    """Check a result against another one, part by part."""
    if not isinstance(facts, Fact):
        assert len(result) == len(wanted) == len(facts), name
        for part, other, fact in zip(result, wanted, facts, strict=True):
            compare(part, other, fact, name)
        return
    array = np.asarray(result.numpy() if hasattr(result, "numpy") else result)
    assert array.dtype == wanted.dtype, f"{name}: dtype {array.dtype}, not {wanted.dtype}"
    assert array.shape == wanted.shape, f"{name}: shape {array.shape}, not {wanted.shape}"
    np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=facts.error, err_msg=name)


def explain(seed: int) -> None:
    """Print a graph, and the first pass of the pipeline behind which its meaning is another."""
    graph = graph_of(seed)
    print(graph.mod.script())
    mod = graph.mod
    for step in default_pipeline().passes:
        before, mod = mod, step(mod)
        for call in range(2):
            inputs = graph.inputs(call)
            legal = LegalizeOps()(mod)
            try:
                found = interpreted(legal, inputs)
                compare(found, expected(graph, inputs), graph.facts, step.name)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
                print(f"# {step.name}: {type(error).__name__}: {error}")
                print("# before:", before.script(), "# after:", mod.script(), sep="\n")
                return
    print("# every pass keeps what the interpreter gives")


def check_special(seed: int) -> None:
    """Call operators for special values; AssertionError names those that give something else."""
    from benchmarks.special_values import special_cases  # noqa: PLC0415 - needs torch

    cases = special_cases(seed, SPECIAL_CASES)
    builder = relax.BlockBuilder()
    for k, case in enumerate(cases):
        params = [
            relax.Var(f"x{n}", relax.TensorStructInfo(x.shape, str(x.dtype)))
            for n, x in enumerate(case.inputs)
        ]
        with builder.function(f"case{k}", params):
            with builder.dataflow():
                result = builder.emit_output(case.call(*params))
            builder.emit_func_output(result)
    mod = LegalizeOps()(builder.get())
    if seed % 4 == 3:
        mod = scheduled(mod)
    executable = codegen.vm_build(mod, TARGET, default_schedules=False, guard_pages=True)
    machine = codegen.VirtualMachine(executable, codegen.cpu())
    wrong = []
    for k, case in enumerate(cases):
        try:
            case.compare(machine[f"case{k}"](*case.inputs))
        except AssertionError as error:
            lines = " ".join(str(error).split())
            wrong.append(f"{case.name}: {lines[:300]} for {case.inputs[:1]}"[:700])
    assert not wrong, "Error: " + "; ".join(wrong)


def main() -> int:
    """Run batches until the time is up; return the number of failures."""
    parser = parser_of(__doc__)
    parser.add_argument("--explain", type=int, help="look for the pass that fails with this seed")
    parser.add_argument("--special", action="store_true", help="special values, needs torch")
    options = parser.parse_args()
    if options.explain is not None:
        explain(options.explain)
        return 0
    module = "benchmarks.fuzz_operators"
    if options.special:
        return run(options, check_special, BATCH, module, "special_values", ["--special"])
    return run(options, check, BATCH, module, "operators")


if __name__ == "__main__":
    sys.exit(main())
