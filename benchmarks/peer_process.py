"""A process of another interpreter that answers requests, one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

PEERS: Final = Path(__file__).parent / "peers"
PACKAGES: Final = {
    "tvm": ("tvm", "numpy"),
    "torch": ("torch", "numpy"),
    "numpy": ("numpy",),
    "onnx": ("onnxruntime", "numpy"),
}
"""The peers, and the packages that each needs."""
_PATIENCE = 2.0
"""Seconds that a peer has to end."""


class PeerError(Exception):
    """The failure of a peer, in a sentence."""


class PeerProcess:
    """Runs a script of `benchmarks/peers` while it is needed; what dies is started anew.

    `log` receives the other output of the peer. A request that takes longer than `limit` seconds
    ends the process, with its children.
    """

    def __init__(
        self, python: Path, script: Path, log: Path, limit: float, env: Mapping[str, str]
    ) -> None:
        self.name = script.stem
        self._command = [str(python), str(script)]
        self._log = log
        self._limit = limit
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self) -> str:
        """Start the process and return how the peer calls itself; PeerError if it cannot start."""
        # An empty folder: one with the name of a package would be imported in its place.
        self._folder = tempfile.TemporaryDirectory(prefix="peer_")
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._folder.name,
                env=self._env,
                start_new_session=True,
            )
        self.name = str(self._answer()["name"])
        return self.name

    def request(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Return the peer's answer; PeerError if it fails, dies or takes too long."""
        if self._process is None:
            self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        # If the pipe is broken there will be no answer, which says why.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": action, **arguments}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process: it ends by itself without work, and is killed if it still has some."""
        if self._process is not None:
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
            self._kill()
            self._process.wait()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(self._limit, stop)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line:
            self._process.wait()
            code = self._process.returncode
            self.close()
            if late.is_set():
                raise PeerError(f"{self.name} was stopped after {self._limit:g} s")
            raise PeerError(f"{self.name} ended with code {code}; {last_line(self._log)}")
        return parse_answer(line, self.name)

    def _kill(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)


def start_peers(
    kinds: Sequence[str],
    pythons: Sequence[Path],
    logs: Path,
    stack: contextlib.ExitStack,
    limit: float,
    env: Mapping[str, str] = MappingProxyType({}),
) -> list[PeerProcess]:
    """Start the peers of some kinds in each interpreter that has their packages.

    The stack closes them; `limit` and `env` are those of `PeerProcess`. Raises PeerError if an
    interpreter does not run, or has none of the packages.
    """
    peers = []
    for python in pythons:
        has = packages_of(python, sorted({name for kind in kinds for name in PACKAGES[kind]}))
        found = [kind for kind in kinds if has.issuperset(PACKAGES[kind])]
        if not found:
            raise PeerError(f"{python} has the packages of no peer: {', '.join(kinds)}")
        for kind in found:
            log = logs / f"{kind}.log"
            peer = PeerProcess(python, PEERS / f"{kind}_peer.py", log, limit, env)
            stack.callback(peer.close)
            peer.start()
            peers.append(peer)
    return peers


def packages_of(python: Path, names: Sequence[str]) -> set[str]:
    """Return which of the packages an interpreter has; PeerError if it does not run."""
    question = (
        "import importlib.util as u, json; "
        f"print(json.dumps([n for n in {list(names)!r} if u.find_spec(n) is not None]))"
    )
    try:
        done = subprocess.run(
            [python, "-c", question],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerError(f"{python} is no Python interpreter that runs: {error}") from error
    return set(json.loads(done.stdout))


def parse_answer(line: str, name: str) -> dict[str, Any]:
    """Return the object of a line; PeerError if it reports an error, or is none."""
    try:
        answer = json.loads(line)
    except json.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise PeerError(f"{name} answered {line.strip()[:80]!r}, which is no JSON object")
    if "error" in answer:
        raise PeerError(str(answer["error"]))
    return answer


def last_line(log: Path) -> str:
    """Return where the log is and its last line, which mostly is the error's message."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    said = [line.strip() for line in lines if line.strip()]
    return f"{log} ends with {said[-1][:200]!r}" if said else f"{log} is empty"
