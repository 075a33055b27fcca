"""Workers and schedulers execute nothing that a client sends."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from search.distributed.data_only import loads_data
from search.distributed.machine import Machine
from search.distributed.measure_here import measure_here
from tests.search.distributed.processes import scheduler_process, wait_until, worker_process

distributed = pytest.importorskip("distributed")


def note_process(folder: str) -> None:
    """Leave the number of the process that executes this."""
    (Path(folder) / str(os.getpid())).touch()


class Evil:
    """Has its reader execute something."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return note_process, (str(self.folder),)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a scheduler with one worker, which trust nobody."""
    with (
        scheduler_process() as address,
        worker_process(address, "distrustful"),
        distributed.Client(address, set_as_default=False) as found,
    ):
        wait_until(lambda: found.scheduler_info()["workers"])
        yield found


def test_no_call_of_a_worker_is_executed(client: Any, tmp_path: Path) -> None:
    """Whoever reaches the port of a worker may call it without the scheduler."""
    (address,) = client.scheduler_info()["workers"]

    async def call(op: str, **arguments: Any) -> Any:
        async with distributed.core.rpc(address) as worker:
            return await getattr(worker, op)(**arguments)

    function = distributed.protocol.pickle.dumps(note_process)
    plugin = distributed.protocol.pickle.dumps(Evil(tmp_path))
    for op, arguments in (
        (
            "run",
            {"function": function, "args": distributed.protocol.pickle.dumps((str(tmp_path),))},
        ),
        ("plugin-add", {"plugin": plugin, "name": "evil"}),
        ("upload_file", {"filename": "evil.py", "data": b"1", "load": True}),
        ("actor_execute", {"actor": "a", "function": "b", "args": (), "kwargs": {}}),
    ):
        with pytest.raises(ValueError, match=f"The '{op}' handler has been explicitly disallowed"):
            client.sync(call, op, **arguments)
    assert not executed_elsewhere(tmp_path)


def executed_elsewhere(folder: Path) -> bool:
    return bool({path.name for path in folder.iterdir()} - {str(os.getpid())})


def test_no_function_of_a_client_is_executed(client: Any, tmp_path: Path) -> None:
    for function in (
        note_process,
        lambda path: note_process(path),
        functools.partial(note_process),
    ):
        with pytest.raises(pickle.UnpicklingError, match="execute nothing else that a client"):
            client.submit(function, str(tmp_path)).result(timeout=20)
    assert not executed_elsewhere(tmp_path)


def test_no_argument_of_a_client_is_executed(client: Any, tmp_path: Path) -> None:
    told = client.submit(measure_here, Evil(tmp_path)).result(timeout=20)
    assert "the request is no text of a JSON object" in told
    assert not executed_elsewhere(tmp_path)


def test_no_call_of_a_client_is_executed(client: Any, tmp_path: Path) -> None:
    refused = "handler has been explicitly disallowed in Scheduler"
    with pytest.raises(ValueError, match=refused):
        client.run(note_process, str(tmp_path))
    with pytest.raises(ValueError, match=refused):
        client.run_on_scheduler(note_process, str(tmp_path))
    with pytest.raises(ValueError, match=refused):
        client.upload_file(__file__)
    assert not executed_elsewhere(tmp_path)
    assert client.submit(measure_here, "{}").result(timeout=20).startswith('{"protocol"')


def test_the_worker_describes_the_machine(client: Any) -> None:
    (worker,) = client.scheduler_info()["workers"].values()
    machine = Machine.from_json(worker["tensorir"])
    assert machine == Machine.this(machine.measuring, machine.at_once)
    assert worker["resources"] == {"measure": 1, machine.resource: machine.at_once}


@pytest.mark.parametrize("thing", [os.system, Path("a"), Evil(Path("b")), lambda: 1, pickle.loads])
def test_what_a_pickle_names_stays_inert(thing: Any) -> None:
    for message in (cloudpickle.dumps(thing), cloudpickle.dumps([thing, {1: thing}])):
        found = loads_data(message)
        found = found[0] if isinstance(found, list) else found
        with pytest.raises(pickle.UnpicklingError, match="execute nothing else"):
            found("an argument")


def test_data_are_read_as_they_are() -> None:
    data = {"a": [1, 2.5, None, b"bytes"], "b": ("text", {3})}
    assert loads_data(pickle.dumps(data)) == data
