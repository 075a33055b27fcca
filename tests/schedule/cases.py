r"""Cases of primitives: a program, some calls, and the program that they make, as text.

The files in `tests/schedule/primitives` are text: scripts and calls, which are parsed and never imported.
Sections begin with `# ----` and a title; `# ====` heads several of them. A title in capitals names a program,
other titles say from which program the cases below start:

    # ---- VECTOR
    @T.prim_func
    def main(A: T.Buffer((128,)), B: T.Buffer((128,))):
        ...

    # ---- the inner factor is inferred | VECTOR
    # Comments may stand here.
    split(i, [3, None])
    # becomes
    for i_0, i_1 in T.grid(3, 43):
        with T.block("B"):
            vi = T.axis.spatial(128, i_0 * 43 + i_1)
            T.where(i_0 * 43 + i_1 < 128)
            ...

    split(i, [4, 31])
    # refused WrongFactorError at loop i: is smaller than the extent

A program that only computes tensors is shorter as formulas of `tensorir.te`, which are named by what
they are assigned to. The parameters are the inputs and the tensors that no other formula reads, in
the order of the lines; the axes of blocks are named after the loops, `vi` for `i`:

    # ---- ROW_SUMS
    A = placeholder((8, 6))
    k = reduce_axis((0, 6))
    B = compute((8,), lambda i: sum(A[i, k], k))

Empty lines separate the cases of a section. `programs.txt` has the programs that several files use. A
case can contain its own program; `# apply` separates it from the calls. A line `# with OLD => NEW`
replaces words of the named program, wherever they occur; ` ; ` separates several replacements, and
`\n` begins a new line, indented like the line of OLD. The calls are methods of a schedule. Names that
no earlier call defined are loops or blocks of the program. `# enable_check=False` makes a schedule
without checks.

A case ends with one of these lines, and what follows it:

- `# becomes`: the body of the new program, its parameters if they change. `...` replaces lines of
  the old program; regions that the parser infers are left out.
- `# blocks`: an outline of the new program, a line a block: the loops around it with their extents,
  its name, its bindings (`+` marks those of reduction axes, `?` of opaque ones), its predicate;
  `...` replaces unchanged blocks.
- `# lines`: the lines of the new program that the old one does not have, wherever they stand.
- `# recorded`: the trace in Python and in JSON, without the instructions that look up.
- `# handles`: the names in the calls, and their meanings afterwards.
- `# refused CODE at loop i, block B: words of the message`: the last call fails and changes nothing.

The new program is well-formed, computes the same as the old one, and replays from its trace; a case
without an ending checks only that. Where results may differ, `not interpreted` says so.

`python -m tests.schedule.cases --update [FILE ...]` writes the endings anew; look at the difference
afterwards.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from tensorir import T, assert_structural_equal, parse, te
from tensorir.errors import TensorIRError
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IterVar
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, BlockRealize, For, ForKind, IfThenElse, SeqStmt, Stmt
from tensorir.rewriting.visit import children, walk
from tensorir.script import parse_expr, parse_index_map
from tests.schedule.transformation import (
    assert_computes_the_same,
    assert_replays,
    assert_text_runs,
    locations,
    parsed,
)

FOLDER = Path(__file__).parent / "primitives"
_TITLE = "# ---- "
_TOPIC = "# ==== "
UNCHECKED = "# enable_check=False"
_REGION = re.compile(r"^ *T\.(reads|writes)\(.*\)\n", re.M)
_END = re.compile(
    r"# ((?:becomes|blocks|lines|handles)(?:, not interpreted)?|recorded|refused.*|not interpreted)$"
)


@dataclass(frozen=True)
class Case:
    """One case of a file."""

    title: str
    lines: range
    """The lines of the ending and of the text after it in the file, counted from 0."""
    program: str
    calls: str
    ending: str
    """The line after the calls without `# `: `becomes`, `refused ...`; empty without an ending."""
    expected: str
    """The text after the ending."""

    @property
    def refusal(self) -> tuple[str, str, str] | None:
        """The code, the marked statements and words of the message; None if nothing is refused."""
        found = re.fullmatch(r"refused(?: (\w+))?(?: at ([^:]*))?(?:: (.*))?", self.ending)
        return found and tuple(part or "" for part in found.groups())


def case_files() -> list[Path]:
    """Return the files that have cases."""
    return [path for path in sorted(FOLDER.glob("*.txt")) if path.name != "programs.txt"]


def program(name: str, file: str = "programs") -> str:
    """Return a named program of a file."""
    return _programs_of(FOLDER / f"{file}.txt")[name]


@cache
def _programs_of(path: Path) -> dict[str, str]:
    return {title: _script(lines) for title, _, lines in _sections(path) if title.isupper()}


def _script(lines: list[str]) -> str:
    """Return the script of a program of these lines, which may be formulas."""
    text = "\n".join(lines) + "\n"
    if "@T.prim_func" in lines:
        return text
    formulas = ast.parse(text)
    names: dict[str, Any] = {name: getattr(te, name) for name in te.__all__} | {"T": T}
    for formula in formulas.body:
        assert isinstance(formula, ast.Assign), ast.unparse(formula)
        (target,), call = formula.targets, formula.value
        assert isinstance(target, ast.Name), ast.unparse(formula)
        assert isinstance(call, ast.Call), ast.unparse(formula)
        call.keywords.append(ast.keyword("name", ast.Constant(target.id)))
    exec(compile(ast.fix_missing_locations(formulas), "formulas", "exec"), names)
    tensors = [value for value in names.values() if isinstance(value, te.Tensor)]
    read = [tensor for reader in tensors for tensor in reader.op.inputs]
    func = te.create_prim_func([t for t in tensors if not t.op.inputs or t not in read])
    script = "@T.prim_func\n" + compact_text(func.without_attr("tir.noalias")) + "\n"
    return re.sub(r"\bv_(\w)", r"v\1", script).replace(', "float32")', ")").replace(".0)", ")")


@cache
def cases_of(path: Path) -> list[Case]:
    """Return the cases of a file."""
    programs = _programs_of(FOLDER / "programs.txt") | _programs_of(path)
    cases: list[Case] = []
    for title, first, lines in _sections(path):
        if title.isupper():
            continue
        name, _, program = title.partition(" | ")
        start = 0
        for end in [*(k for k, line in enumerate(lines) if not line), len(lines)]:
            cases.append(_case(name, programs.get(program, ""), first + start, lines[start:end]))
            start = end + 1
    return cases


def _sections(path: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the title, the number of the first line, and the lines of each section."""
    lines = path.read_text().splitlines()
    heads = [k for k, line in enumerate(lines) if line.startswith((_TITLE, _TOPIC))]
    for head, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        if lines[head].startswith(_TITLE):
            while not lines[end - 1]:
                end -= 1
            yield lines[head].removeprefix(_TITLE), head + 1, lines[head + 1 : end]


def _case(title: str, program: str, first: int, lines: list[str]) -> Case:
    start = lines.index("# apply") + 1 if "# apply" in lines else 0
    if start:
        program = _script(lines[: start - 1])
    assert program, f"{title}: name a program, or put `# apply` after one"
    end = next((k for k, line in enumerate(lines) if _END.match(line)), len(lines))
    calls = "\n".join(lines[start:end]) + "\n"
    for edits in re.findall(r"^# with (.*)$", calls, re.M):
        for edit in edits.split(" ; "):
            old, _, new = edit.partition(" => ")
            varied = _replaced(program, old, new)
            assert varied != program, f"{title}: the program has no {old}"
            program = varied
    ending = lines[end].removeprefix("# ") if end < len(lines) else ""
    expected = "\n".join(lines[end + 1 :])
    return Case(title, range(first + end, first + len(lines)), program, calls, ending, expected)


def _replaced(text: str, old: str, new: str) -> str:
    """Return a text with whole words replaced."""

    def put(found: re.Match[str]) -> str:
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.end()]
        return new.replace(r"\n", "\n" + " " * (len(line) - len(line.lstrip())))

    pattern = r"\n *".join(re.escape(part.strip()) for part in old.split(r"\n"))
    begin, end = (r"\b" if c.isalnum() or c == "_" else "" for c in (old[0], old[-1]))
    return re.sub(begin + pattern + end, put, text)


# ------------------------------------------------------------------------------------ running a case


def check(case: Case) -> None:
    """Run a case; raise AssertionError if the outcome differs from its text."""
    if case.refusal is not None:
        code, marked, words = case.refusal
        error, at = _refused(case)
        assert (error.code, at) == (code, marked), str(error)
        assert words in str(error)
        return
    sch, told = _done(case)
    assert told == case.expected.splitlines()
    assert_structural_equal(parse(sch.mod.script()), sch.mod)
    if UNCHECKED not in case.calls:
        assert_replays(sch, parsed(case.program))
    if case.ending == "recorded":
        assert_text_runs(sch, parsed(case.program))
    if not case.ending.endswith("not interpreted"):
        assert_computes_the_same(case.program, sch.mod)


def _done(case: Case) -> tuple[Schedule, list[str]]:
    """Return a schedule after all calls, and the lines after the ending."""
    sch, calls = started(case)
    calls.run(ast.parse(case.calls).body)
    match case.ending:
        case "recorded":
            return sch, recorded(sch)
        case "handles" | "handles, not interpreted":
            return sch, calls.handles()
        case "" | "not interpreted":
            return sch, []
        case "blocks" | "blocks, not interpreted":
            old, new = (list(outline(f.body)) for f in (parsed(case.program), sch.mod["main"]))
            return sch, list(_elided(new, [0] * len(new), _changed(old, new)))
        case "lines" | "lines, not interpreted":
            return sch, new_lines(parsed(case.program), sch.mod["main"])
    return sch, shown(parsed(case.program), sch.mod["main"]).splitlines()


def started(case: Case) -> tuple[Schedule, _Calls]:
    """Return a schedule of the program of a case, and an interpreter of its calls."""
    checked = UNCHECKED not in case.calls
    sch = Schedule(parsed(case.program), debug_mask="all", seed=1, enable_check=checked)
    return sch, _Calls(sch)


def _refused(case: Case) -> tuple[ScheduleError, str]:
    """Return the error of the last call, and the loops and blocks that it marks."""
    sch, calls = started(case)
    *others, last = ast.parse(case.calls).body
    calls.run(others)
    run = calls.prepared(last)
    program, length = sch.mod["main"], len(sch.trace.insts)
    try:
        run()
    except ScheduleError as error:
        assert sch.mod["main"] is program
        assert len(sch.trace.insts) == length
        return error, ", ".join(locations(error, sch))
    raise AssertionError(f"{ast.unparse(last)} was not refused")


class _Calls:
    """The calls of a case: methods of a schedule, with plain values and what calls returned."""

    def __init__(self, sch: Schedule) -> None:
        self._sch = sch
        self._names: dict[str, Any] = {"inline": LoopRV.inline_rv(), "root": LoopRV.root_rv()}

    def handles(self) -> list[str]:
        """Return the names of the handles and their current meanings."""
        handles = [(n, rv) for n, rv in self._names.items() if isinstance(rv, (BlockRV, LoopRV))]
        texts = ((name, self._sch.meaning_of(rv).partition(": ")[2]) for name, rv in handles)
        return [f"{name}: {text}" for name, text in texts if name not in ("inline", "root")]

    def run(self, stmts: list[ast.stmt]) -> None:
        for stmt in stmts:
            self.prepared(stmt)()

    def prepared(self, stmt: ast.stmt) -> Callable[[], Any]:
        """Evaluate the arguments of a call; return the function that makes it."""
        assert isinstance(stmt, (ast.Assign, ast.Expr)), ast.unparse(stmt)
        call = self._call(stmt.value)

        def run() -> Any:
            result = call()
            if isinstance(stmt, ast.Assign):
                self._assign(stmt.targets[0], result)
            return result

        return run

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = value
            return
        assert isinstance(target, (ast.Tuple, ast.List))
        rest = next((k for k, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
        if rest is None:
            for part, one in zip(target.elts, value, strict=True):
                self._assign(part, one)
        else:
            after = len(target.elts) - rest - 1
            parts = [*value[:rest], value[rest : len(value) - after], *value[len(value) - after :]]
            for part, one in zip(target.elts, parts, strict=True):
                self._assign(part.value if isinstance(part, ast.Starred) else part, one)

    def _call(self, node: ast.expr) -> Callable[[], Any]:
        assert isinstance(node, ast.Call), ast.unparse(node)
        assert isinstance(node.func, ast.Name), ast.unparse(node)
        method = getattr(self._sch, node.func.id)
        args = self._items(node.args)
        options = {option.arg: self._value(option.value) for option in node.keywords}
        return lambda: method(*args, **options)

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items += self._value(node.value)
            else:
                items.append(self._value(node))
        return items

    def _in_program(self, name: str) -> Any:
        """Return the only loop or block of the program that has a name."""
        nodes = list(walk(self._sch.mod["main"].body))
        loops = [n for n in nodes if isinstance(n, For) and n.loop_var.name == name]
        blocks = [n for n in nodes if isinstance(n, Block) and n.name_hint == name]
        assert len(loops) + len(blocks) == 1, (
            f"{name} names {len(loops)} loops, {len(blocks)} blocks"
        )
        if blocks:
            return self._sch.get_block(name)
        (loop,) = loops
        inner = next(n for n in walk(loop.body) if isinstance(n, Block))
        found = self._sch.get_loops(self._sch.get_block(inner.name_hint))
        return next(rv for rv in found if self._sch.get(rv) is loop)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return self._names[name] if name in self._names else self._in_program(name)
            case ast.List() | ast.Tuple():
                items = self._items(node.elts)
                return items if isinstance(node, ast.List) else tuple(items)
            case ast.Dict():
                keys = [ast.literal_eval(key) for key in node.keys]
                return dict(zip(keys, map(self._value, node.values), strict=True))
            case ast.Lambda(args=args, body=body):
                if isinstance(body, ast.List):
                    # Ranges: begins and ends, one after the other.
                    body = ast.Tuple([end for pair in body.elts for end in pair.elts], ast.Load())
                return parse_index_map(ast.unparse(ast.Lambda(args, body)), self._names)
            case ast.Subscript():
                return self._value(node.value)[ast.literal_eval(node.slice)]
            case ast.Call(func=ast.Name()):
                return self._call(node)()
            case ast.Call(func=ast.Attribute(attr="from_func")):
                return parse_index_map(ast.unparse(node), self._names)
        try:
            return ast.literal_eval(node)
        except ValueError:
            return parse_expr(ast.unparse(node), self._names)


# ----------------------------------------------------------------------------------- showing results


def shown(before: Any, after: Any) -> str:
    """Return the body of a function, with `...` for unchanged lines of another one."""
    old, new = compact_text(before).splitlines(), compact_text(after).splitlines()
    if old[0] == new[0]:
        old, new = ([line[4:] for line in lines[1:]] for lines in (old, new))
    is_shown = _changed(old, new)
    # The lines that begin what a shown line is in are shown, too.
    depths = [len(line) - len(line.lstrip()) for line in new]
    inner = 0
    for k in reversed(range(len(new))):
        if is_shown[k] or depths[k] < inner:
            is_shown[k], inner = True, depths[k]
    return "\n".join(_elided(new, depths, is_shown))


def new_lines(before: Any, after: Any) -> list[str]:
    """Return the lines of a function that another one does not have, without indentation."""
    old = {line.strip() for line in compact_text(before).splitlines()}
    lines = (line.strip() for line in compact_text(after).splitlines())
    return [line for line in lines if line not in old]


def _changed(old: list[str], new: list[str]) -> list[bool]:
    """Return for each new line True if it differs, or is next to deleted lines."""
    found = [False] * len(new)
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if kind == "delete":
            start, end = max(start - 1, 0), min(start + 1, len(new))
        if kind != "equal":
            found[start:end] = [True] * (end - start)
    return found


def _elided(lines: list[str], depths: list[int], is_shown: list[bool]) -> Iterator[str]:
    """Yield lines, and `...` for two or more hidden ones; at each level that they come down to."""
    k = 0
    while k < len(lines):
        end = k
        while end < len(lines) and not is_shown[end] and depths[end] >= depths[k]:
            end += 1
        if end - k >= 2:
            yield " " * depths[k] + "..."
            k = end
        else:
            yield lines[k]
            k += 1


def recorded(sch: Schedule) -> list[str]:
    """Return the instructions of a trace in Python and in JSON, without lookups."""
    lines: list[str] = []
    rows, _ = sch.trace.as_json()
    for python, row in zip(sch.trace.as_python(), rows, strict=True):
        if row[0] not in ("GetBlock", "GetLoops"):
            lines += [python, json.dumps(row)]
    return lines


def outline(node: Any, around: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a line for the buffers of a block, and one for each block below."""
    match node:
        case For():
            kind = "" if node.kind is ForKind.SERIAL else f"{node.kind.name.lower()} "
            start = "" if is_const_int(node.min, 0) else f" from {node.min}"
            yield from outline(node.body, (*around, f"{kind}{node.loop_var} {node.extent}{start}"))
        case IfThenElse():
            yield from outline(node.then_case, (*around, f"if {node.condition}"))
            if node.else_case is not None:
                yield from outline(node.else_case, (*around, f"if not {node.condition}"))
        case BlockRealize(block=block):
            if block.name_hint != "root":
                pairs = zip(block.iter_vars, node.iter_values, strict=True)
                values = ", ".join(f"{_KINDS.get(a.iter_type, '?')}{value}" for a, value in pairs)
                where = "" if is_const_int(node.predicate, 1) else f" where {node.predicate}"
                yield f"{', '.join(around)}: {block.name_hint}({values}){where}".removeprefix(": ")
            if block.alloc_buffers:
                yield f"alloc {', '.join(map(_buffer_text, block.alloc_buffers))}"
            inner = [line for part in (block.init, block.body) for line in outline(part)]
            yield from inner if block.name_hint == "root" else ("    " + line for line in inner)
        case SeqStmt():
            for part in node.seq:
                yield from outline(part, around)
        case _ if isinstance(node, Stmt):
            for part in children(node):
                if isinstance(part, Stmt):
                    yield from outline(part, around)


def _buffer_text(buffer: Buffer) -> str:
    parts = f"{buffer.name}({', '.join(map(str, buffer.shape))})", str(buffer.dtype), buffer.scope()
    return " ".join(part for part in parts if part not in ("float32", "global"))


_KINDS = {IterVar.DATA_PAR: "", IterVar.COMM_REDUCE: "+"}


@lru_cache(maxsize=64)
def compact_text(func: Any) -> str:
    """Return the script of a function without the regions that its parser infers."""
    text = func.script()
    lines, inferred = text.splitlines(), []
    with suppress(TensorIRError):
        inferred = parse(_REGION.sub("", text)).script().splitlines()
    if len(inferred) == len(lines):
        pairs = zip(lines, inferred, strict=True)
        lines = [a for a, b in pairs if a != b or not _REGION.match(a + "\n")]
    begin = lines.index("@T.prim_func") + 1
    return "\n".join(line for line in lines[begin:] if "# with T.block" not in line)


# ------------------------------------------------------------------------------------------ updating


def updated(path: Path) -> str:
    """Return the text of a file with the current outcomes of its cases."""
    lines = path.read_text().splitlines()
    for case in reversed(cases_of(path)):
        ending = [f"# {case.ending}"] if case.ending else []
        if case.refusal is not None:
            error, at = _refused(case)
            words = case.refusal[2]
            words = words if words and words in str(error) else error.message.partition("\n")[0]
            ending = [f"# refused {error.code}" + (f" at {at}" if at else "") + f": {words}"]
        elif ending:
            ending += _done(case)[1]
        lines[case.lines.start : case.lines.stop] = ending
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] != ["--update"]:
        sys.exit(__doc__)
    for path in [Path(name) for name in sys.argv[2:]] or case_files():
        path.write_text(updated(path))
