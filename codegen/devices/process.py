"""The process of a device, as this process sees it: started on first use, and again after its end.

Requests go through a pipe, the contents of arrays through a file that both processes map.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from mmap import mmap
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from codegen.errors import ExecutionError, LinkError

if TYPE_CHECKING:
    from codegen.devices.worker import Place

_NEEDED: Final = {"opencl": ("pyopencl", "opencl"), "cuda": ("cuda.bindings", "cuda")}
"""The package that runs kernels of a kind of target, and the extra that installs it."""
_START_SECONDS: Final = 60.0
_MEMORY: Final = Path("/dev/shm")
"""The folder whose files are in memory, on Linux."""


class DeviceProcess:
    """A process that owns a device; its methods may be called from several threads."""

    def __init__(self, kind: str, index: int, optimize: bool) -> None:
        self._kind, self._index, self._optimize = kind, index, optimize
        self._lock = threading.RLock()
        self._owner = 0
        """The process that started the other one."""
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._log: IO[bytes] | None = None
        self._shared: IO[bytes] | None = None
        self._discarded: list[tuple[str, int]] = []
        self._numbers = 0
        self.generation = 0
        """Counts the processes that ended; what an earlier one owned is lost."""
        self.name = ""
        """The name of the device, known when a process was started."""

    def start(self) -> None:
        """Start the process if none runs; LinkError if there is no such device."""
        with self._lock:
            self._started()

    def request(self, name: str, *args: Any, timeout: float = 60.0) -> Any:
        """Return what a method of the launcher returns in the other process.

        Raises ExecutionError for an error, if the process ends, and if it does not answer within
        `timeout` seconds, after which it is ended; LinkError if there is no such device.
        """
        with self._lock:
            connection = self._started()
            try:
                while self._discarded:
                    connection.send(self._discarded.pop())
                    self._answer(connection, timeout)
                connection.send((name, *args))
                result, problem = self._answer(connection, timeout)
            except (EOFError, OSError) as error:
                raise ExecutionError(self._ended()) from error
        if problem is not None:
            raise ExecutionError(f"{self}: {problem}")
        return result

    def check_alive(self, generation: int) -> None:
        """Raise ExecutionError if the process of a generation has ended."""
        if generation != self.generation:
            raise ExecutionError(
                f"the process of {self} ended after this array was made, and its elements are "
                "lost; make the array again by codegen.array"
            )

    def discard(self, method: str, number: int, generation: int) -> None:
        """Free an array, unload a kernel or forget commands before the next request.

        It is one of the process of a generation. This may be called at any time, also while a
        request is answered.
        """
        if generation == self.generation:
            self._discarded.append((method, number))

    def write(self, place: Place, data: memoryview) -> None:
        """Copy bytes to a place in an array; errors are those of `request`."""
        if data.nbytes:
            with self._lock, self._window(data.nbytes) as window:
                window[:] = data
                self.request("write", place, data.nbytes)

    def read(self, place: Place, data: memoryview) -> None:
        """Copy bytes from a place in an array; errors are those of `request`."""
        if data.nbytes:
            with self._lock, self._window(data.nbytes) as window:
                self.request("read", place, data.nbytes)
                data[:] = window

    def _window(self, nbytes: int) -> mmap:
        self._started()
        assert self._shared is not None
        if os.fstat(self._shared.fileno()).st_size < nbytes:
            os.ftruncate(self._shared.fileno(), nbytes)
        return mmap(self._shared.fileno(), nbytes)

    def next_number(self) -> int:
        """Return a number for an array, a kernel or recorded commands."""
        with self._lock:
            self._numbers += 1
            return self._numbers

    def _answer(self, connection: Connection, timeout: float) -> tuple[Any, str | None]:
        if not connection.poll(timeout):
            self.close()
            raise ExecutionError(
                f"{self} did not answer within {timeout:g} s and was ended, and its arrays are "
                "lost; a kernel may loop forever, or pass a longer timeout to codegen.device"
            )
        answer: tuple[Any, str | None] = connection.recv()
        return answer

    def _started(self) -> Connection:
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        self.close()  # a fork of this process needs one of its own
        if self._kind not in _NEEDED:
            raise LinkError(
                f"kernels for {self._kind} are compiled and inspected, and not run; the target "
                "'opencl' runs"
            )
        package, extra = _NEEDED[self._kind]
        if find_spec(package.split(".")[0]) is None:
            raise LinkError(
                f"no runtime for {self._kind} is installed; pip install 'tensorir[{extra}]'"
            )
        ours, theirs = Pipe()
        script = Path(__file__).with_name("worker.py")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        folder = _MEMORY if _MEMORY.is_dir() else None
        self._shared = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        descriptors = [theirs.fileno(), self._shared.fileno()]
        words = map(str, [self._kind, self._index, int(self._optimize), *descriptors])
        with tempfile.TemporaryDirectory(prefix="tensorir-") as vendors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script), *words],
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stderr=self._log,
                env=_environment(self._kind, Path(vendors)),
                start_new_session=True,  # Ctrl-C is for the process that started it, which ends it
            )
            theirs.close()
            self._connection, self._owner = ours, os.getpid()
            atexit.register(self.close)
            try:
                name, problem = self._answer(ours, _START_SECONDS)
            except EOFError:
                raise LinkError(self._ended()) from None
        if problem is not None:
            self.close()
            raise LinkError(f"there is no device {self}: {problem}")
        self.name = name
        return ours

    def _ended(self) -> str:
        """Close what is left of a process that ended by itself; return a sentence about it."""
        process, log = self._process, self._log
        assert process is not None
        assert log is not None
        status = process.wait(10)
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
        self.close()
        reason = f"signal {-status}" if status < 0 else f"status {status}"
        last = f" ({said[-1]})" if said and status >= 0 else ""
        return (
            f"the process of {self} ended with {reason}{last}, and its arrays are lost; a kernel "
            "may access memory out of bounds"
        )

    def close(self) -> None:
        """End the process; the next request starts another one."""
        with self._lock:
            atexit.unregister(self.close)
            if self._process is not None and self._owner == os.getpid():
                self._process.kill()
                self._process.wait()
            if self._connection is not None:
                self._connection.close()
            for file in filter(None, (self._log, self._shared)):
                file.close()
            self._process = self._connection = self._log = self._shared = None
            self._discarded.clear()
            self.generation += 1

    def __str__(self) -> str:
        return f"{self._kind}({self._index})"


def _environment(kind: str, vendors: Path) -> dict[str, str]:
    """Return the environment of the process; `vendors` is an empty folder for drivers."""
    path = os.pathsep.join(filter(None, sys.path))
    found = {**os.environ, "PYTHONPATH": path, "PYOPENCL_NO_CACHE": "1"}
    library = _intel_library() if kind == "opencl" else None
    if library is not None and "OCL_ICD_VENDORS" not in os.environ:
        (vendors / "intel.icd").write_text(f"{library}\n")
        found["OCL_ICD_VENDORS"] = str(vendors)
    return found


def _intel_library() -> Path | None:
    """Return Intel's runtime of OpenCL for CPUs, which a package of Python installs; None without.

    The loader of OpenCL finds runtimes by files that name them, which the package does not install.
    """
    try:
        files = distribution("intel-opencl-rt").files or []
    except PackageNotFoundError:
        return None
    found = (Path(str(f.locate())) for f in files if f.name == "libintelocl.so")
    return next((path.resolve() for path in found if path.exists()), None)
