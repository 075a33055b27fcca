"""The programs of `primitives/programs.txt`, by name: `from tests.schedule.programs import MATMUL`."""

from tests.schedule.cases import program


def __getattr__(name: str) -> str:
    if name.startswith("_"):
        raise AttributeError(name)
    return program(name)
