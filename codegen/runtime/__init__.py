"""Machine code in a process: loading, arguments, calls, timing, export."""
