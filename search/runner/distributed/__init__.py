"""Measuring on many machines: a Dask scheduler between a search and the machines that measure.

`tensorir scheduler` connects them: a machine joins with `tensorir worker dask://host:8786`, and a
search measures there with `runner="dask://host:8786"` (`DaskRunner`, `DaskBuilder`). All three need
the credentials that the scheduler makes: access is login. Messages are texts: a `MeasureRequest`
has a program, its target and its arguments, a `MeasureAnswer` the times or the failure. A machine
compiles the program, and measures it in the same child processes as a local search (`Bench`). See
docs/many-machines.md.
"""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from search.runner.distributed.connection import Machine
    from search.runner.distributed.credentials import Credentials
    from search.runner.distributed.dask_runner import DaskBuilder, DaskRunner

__all__ = ["Credentials", "DaskBuilder", "DaskRunner", "Machine"]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
