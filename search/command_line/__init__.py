"""The command `tensorir`: programs and models are tuned, run, shown and explained.

A command is a function whose arguments typer reads. It returns a `Result` (`result.py`), which
`main.py` prints as text, as tables on a terminal, or as JSON.
"""
