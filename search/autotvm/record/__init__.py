"""Logs of measurements: their lines, their files, and the choice of their best records."""

from search.autotvm.record.log_file import (
    LOG_VERSION,
    Record,
    append_to_file,
    check_protocol,
    decode,
    encode,
    load_from_buffer,
    load_from_file,
    measure_str_key,
    pick_best,
    records_of,
    split_workload,
)
from search.records.appended_file import PathLike
from search.records.record_files import Records
from search.records.record_lines import LineError

__all__ = [
    "LOG_VERSION",
    "LineError",
    "PathLike",
    "Record",
    "Records",
    "append_to_file",
    "check_protocol",
    "decode",
    "encode",
    "load_from_buffer",
    "load_from_file",
    "measure_str_key",
    "pick_best",
    "records_of",
    "split_workload",
]
