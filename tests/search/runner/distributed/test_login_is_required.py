"""Whoever has the credentials can run programs; whoever has not ends at the handshake.

The attacks use what Dask does for everyone who reaches a port: it does what messages say.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from search.runner.distributed.connection import Machine
from search.runner.distributed.credentials import Credentials
from tests.search.runner.distributed.cluster import scheduler_process, wait_until, worker_process

distributed = pytest.importorskip("distributed")

LOOPBACK: Final = "127.0.0.1"


class Machines:
    """The processes of a scheduler and a worker, and a client that has their credentials."""

    def __init__(self, scheduler: Any, worker: Any, client: Any) -> None:
        self.scheduler, self.worker, self.client = scheduler, worker, client
        (self.worker_address,) = client.scheduler_info()["workers"]


@pytest.fixture(scope="module")
def machines(credentials: Path) -> Iterator[Machines]:
    security = Credentials.read(credentials).security
    with scheduler_process() as (scheduler, address), worker_process(address, "a") as worker:
        place = address.replace("dask://", "tls://")
        with distributed.Client(place, security=security, set_as_default=False) as client:
            wait_until(lambda: client.scheduler_info()["workers"])
            yield Machines(scheduler, worker, client)


def without_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def of_another_authority() -> Any:
    return Credentials.temporary().security.get_connection_args("client")["ssl_context"]


ATTACKERS: Final[Mapping[str, Any]] = {
    "not encrypted": lambda: ("tcp", {}),
    "no certificate": lambda: ("tls", {"ssl_context": without_certificate()}),
    "another certificate": lambda: ("tls", {"ssl_context": of_another_authority()}),
}


def sends(attacker: str, address: str, *messages: Any) -> None:
    """Send messages to a port."""
    scheme, arguments = ATTACKERS[attacker]()

    async def send() -> None:
        place = address.partition("://")[2]
        comm = await distributed.comm.connect(f"{scheme}://{place}", 5, **arguments)
        for message in messages:
            await comm.write(message)
        await comm.read()

    asyncio.run(asyncio.wait_for(send(), 20))


def named(*path: str) -> Mapping[str, Any]:
    """Return what Dask reads as an attribute of a module that one of its own imports."""
    module, name = path
    return {"__Enum__": True, "__module__": "distributed.utils", "__name__": module, "name": name}


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_no_shell_command_without_credentials(
    attacker: str, machines: Machines, tmp_path: Path
) -> None:
    """A scheduler calls the annotations of a graph, and a message makes them `os.system`."""
    command = f"touch {shlex.quote(str(tmp_path / 'attacked'))}"
    expression = importlib.import_module("dask._expr").LLGExpr({command: 1})
    graph = {
        "op": "update-graph",
        "keys": {command},
        "expr_ser": distributed.protocol.to_serialize(expression),
        "annotations": {"priority": named("os", "system")},
        "span_metadata": {"collections": []},
        "internal_priority": None,
        "submitting_task": None,
    }
    register = {"op": "register-client", "client": "attacker", "reply": False, "versions": {}}
    with pytest.raises(distributed.comm.CommClosedError):
        sends(attacker, machines.client.scheduler.address, register, [graph])
    assert machines.client.run_on_scheduler(os.getpid) == machines.scheduler.pid
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_no_call_of_a_worker_without_credentials(attacker: str, machines: Machines) -> None:
    with pytest.raises(distributed.comm.CommClosedError):
        sends(attacker, machines.worker_address, {"op": "ping", "reply": True})


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_no_environment_for_a_server_without_credentials(scheme: str, machines: Machines) -> None:
    """A worker that is sent to fetch something from a server reads what that answers."""
    called = []

    async def get_data(**_: Any) -> Any:
        called.append("get_data")
        return {"status": "OK", "data": {"x": named("os", "environ")}}

    async def fetch() -> Any:
        foreign = Credentials.temporary().security if scheme == "tls" else None
        server = distributed.core.Server({"get_data": get_data})
        arguments = foreign.get_listen_args("worker") if foreign else {}
        await server.listen(f"{scheme}://{LOOPBACK}", **arguments)
        own = Credentials.read().security.get_connection_args("client")
        async with distributed.core.rpc(machines.worker_address, connection_args=own) as worker:
            answer = await worker.gather(who_has={"x": [server.address]})
        await server.close()
        return answer

    assert asyncio.run(fetch()) == {"status": "partial-fail", "keys": ("x",)}
    assert not called


def test_whoever_has_the_credentials_can_run_programs(machines: Machines) -> None:
    assert machines.client.run_on_scheduler(os.getpid) == machines.scheduler.pid
    assert machines.client.run(os.getpid) == {machines.worker_address: machines.worker.pid}


def test_each_opens_one_port_where_the_other_reaches_it(machines: Machines) -> None:
    """There is no server for a dashboard, which would ask for no login."""
    for process, address in (
        (machines.scheduler, machines.client.scheduler.address),
        (machines.worker, machines.worker_address),
    ):
        opened = [
            connection.laddr
            for one in (psutil.Process(process.pid), *psutil.Process(process.pid).children(True))
            for connection in one.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert [f"tls://{place.ip}:{place.port}" for place in opened] == [address]
        assert address.startswith(f"tls://{LOOPBACK}:")


def test_the_worker_describes_the_machine(machines: Machines) -> None:
    (worker,) = machines.client.scheduler_info()["workers"].values()
    machine = Machine.from_json(worker["tensorir"])
    assert machine == Machine.this(machine.measuring, machine.at_once)
    assert worker["resources"] == {machine.resource: machine.at_once}
