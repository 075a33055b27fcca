"""The pages of the reference, made from what the packages say of themselves.

Docstrings of the packages are Markdown, which the site is written in: each public name becomes a
directive of Sphinx's Python domain with its docstring inside, so that it has a link and stands in
the index. `undocumented` lists the public names that have none.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import importlib.util
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from schedule.instruction import InstructionKind
from schedule.operands.operand import Parameter

MODULES: Final = (
    "tensorir",
    "tensorir.arith",
    "tensorir.frontend",
    "tensorir.interp",
    "tensorir.relax",
    "tensorir.te",
    "tensorir.transform",
    "tensorir.workloads",
    "schedule",
    "codegen",
    "codegen.vm",
    "search",
    "search.arg_info",
    "search.compat.autotvm",
    "search.builder",
    "search.compat.auto_scheduler",
    "search.compat.auto_scheduler.sketch_policy",
    "search.cost_model",
    "search.database",
    "search.runner.distributed",
    "search.feature_extractor",
    "search.models.graph_tuner",
    "search.measure_callback",
    "search.mutator",
    "search.reports.plot",
    "search.postproc",
    "search.runner",
    "search.schedule_rule",
    "search.search_strategy",
    "search.space_generator",
    "search.task_scheduler",
    "search.transform",
    "search.reports",
)
"""The modules whose names are public."""

_FENCE: Final = "`" * 3
_PAGE: Final = re.compile(r"(?<![\w/`])docs/([\w-]+)\.md")


@dataclass(frozen=True)
class Member:
    """A public name: what it is, how it is written, what its docstring says."""

    kind: str
    """A directive of the Python domain: `function`, `class`, `method`, `attribute`, `data`, ..."""
    name: str
    signature: str
    text: str
    members: tuple[Member, ...] = ()

    def markdown(self, depth: int = 0) -> str:
        """Return the directive; its fence is longer than those inside."""
        fence = "`" * (8 - depth)
        options = ":no-index-entry:\n" if depth and self.kind == "attribute" else ""
        inside = "\n".join(member.markdown(depth + 1) for member in self.members)
        return (
            f"{fence}{{py:{self.kind}}} {self.name}{self.signature}\n{options}\n"
            f"{self.text}\n\n{inside}{fence}\n"
        )


def public_names(module: ModuleType) -> list[str]:
    """Return what `from module import *` gives, submodules and the version left out."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        own = (
            n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        )
        listed = sorted(name for name in own if not name.startswith("_"))
    return [name for name in listed if name != "__version__"]


def members(module: ModuleType) -> list[Member]:
    """Return the public names of a module in their order, those of a home elsewhere included."""
    found = []
    for name in public_names(module):
        try:
            value = getattr(module, name)
        except ImportError:  # it needs a package that is not here
            found.append(_unloaded_function(module, name))
            continue
        if not isinstance(value, ModuleType):
            found.append(_member(module, name, value))
    return found


def _unloaded_function(module: ModuleType, name: str) -> Member:
    """Return a function whose module cannot be imported, by its source."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            spec = importlib.util.find_spec(str(node.module))
            assert spec is not None
            assert spec.origin is not None
            for found in ast.parse(Path(spec.origin).read_text()).body:
                if isinstance(found, ast.FunctionDef) and found.name == name:
                    for argument in ast.walk(found.args):
                        if isinstance(argument, ast.arg):
                            argument.annotation = None
                    signature = f"({ast.unparse(found.args)})"
                    return Member("function", name, signature, ast.get_docstring(found) or "")
    raise LookupError(f"{module.__name__}.{name} is imported from nowhere")


def _member(module: ModuleType, name: str, value: Any) -> Member:
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        text = own_text(value)
        return Member(kind, name, _signature(value), text, tuple(_members_of(value)))
    if callable(value) and inspect.isroutine(inspect.unwrap(value)):
        text = own_text(value) or _text_of_data(module, name, value)
        return Member("function", name, _signature(value), text)
    return Member("data", name, "", _text_of_data(module, name, value))


def _members_of(cls: type[Any]) -> Iterator[Member]:
    """Yield the public methods, properties and attributes of a class, bases' of ours included."""
    seen: set[str] = set()
    own = [cls] if issubclass(cls, BaseException) else cls.__mro__
    for base in (c for c in own if _is_ours(c)):
        described = _attribute_texts(base)
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(value, (staticmethod, classmethod)) or inspect.isfunction(value):
                function = getattr(cls, name)
                yield Member("method", name, _signature(function, True), own_text(function))
            elif isinstance(value, (property, functools.cached_property)):
                getter = value.fget if isinstance(value, property) else value.func
                yield Member("property", name, "", own_text(getter) or described.get(name, ""))
            elif name in described:
                yield Member("attribute", name, "", described[name])
        for name in described:
            if name not in seen and not name.startswith("_"):
                seen.add(name)
                yield Member("attribute", name, "", described[name])


def _is_ours(cls: type[Any]) -> bool:
    return cls.__module__.split(".")[0] in ("tensorir", "schedule", "codegen", "search")


def own_text(value: Any) -> str:
    """Return the docstring, empty for one that Python made up."""
    text = inspect.getdoc(value) or ""
    if is_dataclass(value) and text.startswith(f"{getattr(value, '__name__', '')}("):
        return ""
    return "" if inspect.isclass(value) and text == inspect.getdoc(enum.Enum) else text


def _signature(value: Any, is_method: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    found = list(signature.parameters.values())
    if is_method and found and found[0].name in ("self", "cls"):
        found = found[1:]
    plain = [
        p.replace(annotation=inspect.Parameter.empty, default=_plain_default(p.default))
        for p in found
        if not p.name.startswith("_")
    ]
    return str(inspect.Signature(plain))


class _Shown:
    """A default as it is shown."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain_default(value: Any) -> Any:
    if value is inspect.Parameter.empty or isinstance(value, (str, int, float, bool, type(None))):
        return value
    text = repr(value)
    return value if re.fullmatch(r"[\w.()\[\]', ]{1,40}", text) else _Shown("...")


@functools.cache
def _attribute_texts(cls: type[Any]) -> dict[str, str]:
    """Return the strings that stand behind the attributes of a class."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and isinstance(body, list):
            found |= _texts_behind(body)
    return found


def _texts_behind(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for before, after in pairwise(body):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        target = before.target if isinstance(before, ast.AnnAssign) else None
        if isinstance(before, ast.Assign) and len(before.targets) == 1:
            target = before.targets[0]
        if is_text and isinstance(after.value.value, str):  # type: ignore[attr-defined]
            text = inspect.cleandoc(after.value.value)  # type: ignore[attr-defined]
            if isinstance(target, ast.Name):
                found[target.id] = text
            elif isinstance(target, ast.Attribute):
                found[target.attr] = text
    return found


def _text_of_data(module: ModuleType, name: str, value: Any) -> str:
    """Return what stands behind a constant where it is defined, or what its class says."""
    source = ast.parse(inspect.getsource(module))
    for node in ast.walk(source):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    home = importlib.import_module(node.module)
                    return _text_of_data(home, alias.name, value)
    text = _texts_behind(source.body).get(name, "")
    own = "" if isinstance(value, (str, int, float, tuple, list, dict)) else own_text(type(value))
    return text or own


def undocumented() -> list[str]:
    """Return the public names, and those of their members, that have no docstring."""

    def without_text(member: Member, path: str) -> Iterator[str]:
        own = f"{path}.{member.name}"
        if not member.text:
            yield own
        for inner in member.members:
            yield from without_text(inner, own)

    found: dict[str, None] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for member in members(module):
            found.update(dict.fromkeys(without_text(member, name)))
    return list(found)


def module_page(name: str) -> str:
    """Return the page of a module."""
    module = importlib.import_module(name)
    about = _PAGE.sub(_page_link, own_text(module))
    parts = [f"# {name}", "", f"{_FENCE}{{py:module}} {name}", _FENCE, "", about, ""]
    parts += [member.markdown() for member in members(module)]
    return "\n".join(parts)


def _page_link(found: re.Match[str]) -> str:
    if not (Path(__file__).parent / f"{found[1]}.md").exists():
        return found[0]
    page = {"search": "the-search"}.get(found[1], found[1])
    return f"[{found[1]}](../{page}.md)"


def primitives_page() -> str:
    """Return the page of the primitives: what each takes, gives and does."""
    kinds = sorted(InstructionKind.all(), key=lambda kind: kind.method)
    rows = ["| method of `Schedule` | takes | gives | instruction |", "| --- | --- | --- | --- |"]
    details = []
    for kind in kinds:
        takes = ", ".join(map(_parameter_text, kind.params)) or "nothing"
        gives = f"`{kind.result}`" if kind.result else "nothing"
        rows.append(f"| [`{kind.method}`](#{kind.method}) | {takes} | {gives} | `{kind.name}` |")
        text = inspect.getdoc(kind.function) or ""
        details += [f"({kind.method})=", f"## {kind.method}", "", text, ""]
    return "\n".join(
        [
            "# Primitives",
            "",
            "Each is a method of `Schedule`, and an instruction of its trace. An argument with a",
            "default may be left out; a sampling primitive takes a `decision` besides.",
            "",
            *rows,
            "",
            *details,
        ]
    )


def _parameter_text(param: Parameter) -> str:
    text = f"`{'*' if param.variadic else ''}{param.name}`"
    return text if param.required or param.variadic else f"{text} = `{param.default!r}`"


def index_page() -> str:
    """Return the page that lists the modules, with the first sentence of each."""
    rows = ["| module | what it has |", "| --- | --- |"]
    for name in MODULES:
        text = own_text(importlib.import_module(name)).split("\n\n", 1)[0].replace("\n", " ")
        rows.append(f"| [`{name}`]({name}.md) | {text} |")
    tree = [f"{_FENCE}{{toctree}}", ":hidden:", "", *MODULES, _FENCE]
    about = (
        "The public names of the packages, and what their docstrings say. Import them from here."
    )
    return "\n".join(["# Reference", "", about, "", *rows, "", *tree, ""])
