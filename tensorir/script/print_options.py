"""The options of printing a program."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tensorir.dialect import Dialect, checked_dialect
from tensorir.errors import IRValueError
from tensorir.quoting import is_name


@dataclass(slots=True)
class PrintOptions:
    """The options of `print_script`, apart from underlines and comments."""

    name: str | None = None
    dialect: Dialect = "tensorir"
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    indent_spaces: int = 4
    syntax_sugar: bool = True
    verbose_expr: bool = False
    show_object_address: bool = False
    show_meta: bool = False

    def __post_init__(self) -> None:
        checked_dialect(self.dialect)
        for field in fields(self):
            value = getattr(self, field.name)
            named = field.name in ("ir_prefix", "tir_prefix", "relax_prefix", "name")
            if named and value is not None and not is_name(value):
                raise IRValueError(f"script: {field.name} must be an identifier, got {value!r}")

    @property
    def is_oldest(self) -> bool:
        """True if buffers, loops and the module are spelled as before release 0.11."""
        return self.dialect == "tvm-0.10"

    def header(self, *, ir: bool, relax: bool) -> list[str]:
        """Return the lines that make the names of the dialect known: `T`, and `I`, `R` if used."""
        names = [("ir", "I", self.ir_prefix)] if ir else []
        if relax:
            names.append(("relax", "R", self.relax_prefix))
        names.append(("tir", "T", self.tir_prefix))
        if self.dialect == "tensorir":
            imported = (ours if ours == used else f"{ours} as {used}" for _, ours, used in names)
            return [f"from tensorir import {', '.join(imported)}", ""]
        return [*(f"# from tvm.script import {theirs} as {used}" for theirs, _, used in names), ""]
