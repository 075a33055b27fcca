"""Operands that are read again are copied to panels in the order in which their readers go."""

from __future__ import annotations

import logging

import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search.feature_extractor.execution import execution
from search.feature_extractor.footprints import CACHES, PAGES, footprints
from search.feature_extractor.machine import Machine
from search.feature_extractor.nests import nests
from search.feature_extractor.read_nests import read_nests
from search.schedule_rule import PackOperands
from search.space_generator.annotations import PACKED
from tensorir.function import PrimFunc
from tests.search.anchored_programs import TARGET
from tests.search.compatible_programs import product
from tests.search.schedule_rule.programs import Reference, program

ONE_CORE = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=1"  # registers of 8 floats
FOUR_CORES = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4"


def packed(func: PrimFunc, **options: int) -> list[Schedule]:
    """Return the designs that the rule makes of block C of a program."""
    rule = PackOperands(**{"min_bytes": 0, **options})
    rule._initialize_with_tune_context(ms.TuneContext(None, target=Target(ONE_CORE)))
    sch = Schedule(func, seed=1)
    return rule.apply(sch, sch.get_block("C"))


def test_panels_that_memory_does_not_hold_are_refused_with_their_size(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "tensorir.search"):
        assert len(packed(program("tiled matmul"), max_bytes=383)) == 1
    assert caplog.messages == [
        "The operand B of block 'C' is not packed: its panels need 384 bytes, and "
        "PackOperands(max_bytes=...) allows 383"
    ]


@pytest.mark.parametrize("target", [ONE_CORE, FOUR_CORES])
@pytest.mark.parametrize("transposed", [False, True])
def test_designs_with_packed_operands_compute_the_same(target: str, transposed: bool) -> None:
    change = "\nB[vk, vj] => B[vj, vk]" if transposed else ""
    func = program(f"matmul{change}")
    rules = ms.schedule_rule.ScheduleRule.create("llvm")
    place = next(k for k, rule in enumerate(rules) if isinstance(rule, PackOperands))
    rules[place] = PackOperands(min_bytes=0)
    context = ms.TuneContext(
        func,
        target=target,
        space_generator=ms.space_generator.PostOrderApply(sch_rules=rules),
        rand_state=1,
    )
    reference = Reference(func)
    spaces = context.generate_design_space()
    packed = [sch for sch in spaces if "packed_operand" in sch.mod.script()]
    assert len(packed) == 2
    for sch in packed:
        sch.enter_postproc()
        assert all(postproc.apply(sch) for postproc in context.space_generator.postprocs)
        assert "B_global[vj // " in sch.mod.script() or "B_global[vk, vj]" in sch.mod.script()
        reference.check(sch.mod, rtol=1e-4)


def test_features_see_panels_as_contiguous() -> None:
    # Each row of 16 columns is in a page of its own, and 256 of them are in one set of the cache.
    wide = program(
        "tiled matmul\n(12, 8) => (1024, 1024)\n16, 12) => 16, 1024)\n16, 8) => 16, 1024)\n"
        "(4, 2, 3, 4, 4, 4) => (4, 64, 4, 4, 16, 256)\n"
        "(8, j_0 * 4 => (1024, j_0 * 16\n(12, k_0 * 4 => (1024, k_0 * 256"
    )
    plain, root, _ = packed(wide)
    machine = Machine.of(Target(ONE_CORE))
    fetched = []
    for sch in (plain, root):
        read, numbers = read_nests(sch.mod)
        (nest,) = [n for n in nests(read, numbers[:, None]) if n.store.updates]
        assert nest.packed == [False, False, sch is root]
        cpu = machine.vector_bits, machine.vector_registers, machine.updates_in_flight
        how = execution(nest, *cpu)
        fetched.append(footprints(nest, how, machine).fetched[2, :, 0])
    lines, pages = CACHES.start, PAGES.start
    assert fetched[0][lines] > 1.2 * fetched[1][lines]
    assert fetched[0][pages] > 2 * fetched[1][pages]


@pytest.mark.parametrize(("free", "is_packed"), [([], True), ([1], False)])
def test_weights_with_a_free_layout_are_packed_at_build_time_only(
    free: list[int], is_packed: bool
) -> None:
    func = product(256, 256, 256)["main"].with_attr("layout_free_buffers", free)
    context = ms.TuneContext(func, target=TARGET, space_generator="post-order-apply", rand_state=1)
    packed = [
        sch
        for sch in context.generate_design_space()
        if any(PACKED in sref.block.annotations for sref in sch.state.blocks("main"))
    ]
    assert bool(packed) == is_packed
