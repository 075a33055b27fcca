"""Schedules of modules with graph functions: the tensor functions change, nothing else does."""

import pytest

from schedule import Schedule
from tensorir import structural_equal
from tests.mixed_module import kernels, with_main


def test_the_tensor_functions_are_scheduled_and_the_graph_functions_stay():
    mod = with_main()
    sch = Schedule(mod)
    sch.parallel(sch.get_loops(sch.get_block("shifted", "shift"))[0])
    assert sch.mod["main"] is mod["main"]
    assert sch.mod["scale"] is mod["scale"]

    alone = Schedule(kernels())
    alone.parallel(alone.get_loops(alone.get_block("shifted", "shift"))[0])
    assert structural_equal(sch.mod["shift"], alone.mod["shift"])
    assert set(sch.mod) == {"main", "scale", "shift"}


def test_copies_keep_the_graph_functions_too():
    mod = with_main()
    sch = Schedule(mod).copy()
    sch.work_on("scale")
    sch.unroll(sch.get_loops(sch.get_block("scaled"))[1])
    assert sch.mod["main"] is mod["main"]


def test_work_on_a_graph_function_is_refused():
    sch = Schedule(with_main())
    with pytest.raises(
        TypeError,
        match=r'"main" is a graph function; the tensor functions of the module are .*scale.*shift',
    ):
        sch.work_on("main")
    assert sch.func_working_on is None


def test_blocks_of_a_graph_function_are_refused():
    sch = Schedule(with_main(), error_render_level="fast")
    with pytest.raises(RuntimeError, match=r'"main" is a graph function, which has no blocks'):
        sch.get_block("scaled", "main")


def test_main_does_not_need_a_name_if_it_is_not_meant():
    assert Schedule(with_main("scale")).func_working_on.name == "scale"
    sch = Schedule(with_main(), error_render_level="fast")
    with pytest.raises(RuntimeError, match=r"several tensor functions, \['scale', 'shift'\]"):
        sch.get_block("scaled")
