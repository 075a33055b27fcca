"""What compiled code and the process that runs it agree on: names of symbols, numbers of states."""

from __future__ import annotations

from typing import Final

CALL_PREFIX: Final = "__tensorir_call_"
"""In front of a function's symbol: the entry that takes all arguments from one array of slots."""
INFO_SYMBOL: Final = "__tensorir_module_info"
"""The description of the module's functions, as JSON."""
OPENMP_SYMBOLS: Final = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
"""What compiled code takes from an OpenMP runtime."""
OUT_OF_MEMORY: Final = -1
"""The status of a function whose allocation failed; 0 is success, others number assertions."""
LIBRARY_FAILED: Final = -2
"""The status of a function that called a library function which raised an exception."""
LIBRARY_SYMBOL: Final = "__tensorir_call_library"
"""What compiled code calls for `T.call_packed`; see `codegen.library_call`."""
