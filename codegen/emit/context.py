"""The state that the parts of the emitter share: the function being written, the dispatch tables.

Each module of the folder registers its handlers in `EXPRESSIONS`, `STATEMENTS` or `INTRINSICS`. The
emitter finds the handler by the class of a node, so handlers call one another without imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeVar

from codegen.abi import status_of
from codegen.emit.llvm_text import FunctionText, ModuleText, register_type
from codegen.errors import CodegenError
from codegen.signature import LibraryCall, Signature
from codegen.target import Target
from tensorir.arith.const_interval import Interval
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import Call, PrimExpr, Var, integer_limits
from tensorir.nodes.stmt import Stmt

if TYPE_CHECKING:
    from codegen.emit.dialect import Dialect

_statements: ContextVar[list[Stmt] | None] = ContextVar("written_statements", default=None)


def written_statements() -> list[Stmt] | None:
    """Return the list that collects the statements that are written, None without one."""
    return _statements.get()


@contextmanager
def collect_statements() -> Iterator[list[Stmt]]:
    """Collect the statements that are written; code has their positions as line numbers."""
    statements: list[Stmt] = []
    token = _statements.set(statements)
    try:
        yield statements
    finally:
        _statements.reset(token)


@dataclass(slots=True)
class ModuleEmitter:
    """An LLVM module being made from one function of an IRModule."""

    name: str
    """The name of the function."""
    target: Target
    dialect: Dialect
    functions: Mapping[str, PrimFunc]
    """The functions of the IRModule by name, for calls from one to another."""
    signatures: Mapping[str, Signature]
    """The interfaces of the functions with a known interface."""
    text: ModuleText = field(default_factory=ModuleText)
    messages: dict[str, None] = field(default_factory=dict)
    """Texts of assertions; the function returns the `status_of` the text of a failed one."""
    library: list[LibraryCall] = field(default_factory=list)
    """The places where the function calls library functions."""
    externs: set[str] = field(default_factory=set)
    """C symbols outside the module that the program calls by name."""
    has_scalar_loop: bool = False
    """True if some innermost loop computes on scalars, so that LLVM's vectoriser may help."""
    statements: list[Stmt] | None = field(default_factory=written_statements)
    """The emitted statements; their positions, from 1, are the line numbers of the code. None if
    they are not collected."""

    def message(self, text: str) -> int:
        """Return the status of the assertion message `text`."""
        self.messages[text] = None
        return status_of(text)


class FunctionEmitter(FunctionText):
    """The LLVM function being written, and the values of its variables."""

    def __init__(self, module: ModuleEmitter, name: str) -> None:
        super().__init__()
        self.module = module
        self.pointer: Final = module.dialect.pointer
        """Returns the type of pointers into the memory that a data pointer points to."""
        self.name = name
        """The name of the function, for errors and for derived names."""
        self.values: dict[Var, str] = {}
        """Variables as operands of their declared type."""
        self.index_dtype = INT64
        """The type of index arithmetic."""
        self.wide: dict[Var, str] = {}
        """Integer variables in the index type, for index arithmetic."""
        self.ranges: dict[Var, Interval] = {}
        self.cleanups: list[str] = []
        """Heap memory to free before returning."""
        self.written: set[Var] = set()
        """Data pointers through which the function, or code that gets the pointer, may store."""
        self.local_pointers: set[Var] = set()
        """Pointers without aliases: `noalias` parameters and memory that the function allocates."""
        self.stack_bytes = 0
        self.shared_bytes: int | None = None
        """The bytes in use of shared memory that a launch allocates; None if kernels declare it."""
        self.in_loop = False
        self.copies = False
        """True in a group of asynchronous copies."""
        self.loops = 0
        """The number of loops that were written."""
        self.result = ""
        """The pointer to which a function stores its result; empty for a function without one."""
        self.in_parallel = False
        self.parallel_bodies = 0
        self.value_variables: set[Var] = set()
        """Variables on which arithmetic wraps: scalar parameters and variables bound to values."""
        self.index_values: dict[PrimExpr, str] = {}
        """Values of the index arithmetic nodes that the current block has computed."""
        self.numbered: dict[str, str] = {}
        """Values of the pure instructions of the current block, by their text (value numbering)."""
        self.inside: dict[str, bool] = {}
        """True for the indices in addresses that are proved not negative, by their text."""
        self.loaded: dict[str, tuple[str, Var]] = {}
        """Values of the loads of the current block whose memory was not stored to since, by their
        text, with their data pointers.
        """
        self.repeated: tuple[Var, ...] = ()
        """Data pointers through which the current loop loads again in every iteration."""
        self.load_mask: tuple[str, int] | None = None
        """The mask of the lanes that may load, and the number of lanes."""
        self.contracts = True
        """True if a product and a sum may become one operation."""
        self.vector_ops = 0
        """The number of memory accesses of more than one lane that were written."""

    def expr(self, node: PrimExpr) -> str:
        """Write the evaluation of `node`; return its value."""
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            self.fail(f"{type(node).__name__} cannot occur in a lowered expression")
        return handler(self, node)

    def masked(self, mask: str, lanes: int, node: PrimExpr) -> str:
        """Write the evaluation of `node`, whose loads touch only the lanes where `mask` holds."""
        outer = self.load_mask
        self.load_mask = (self.in_load_mask(mask, lanes), lanes)
        value = self.expr(node)
        self.load_mask = outer
        return value

    def in_load_mask(self, mask: str, lanes: int) -> str:
        """Return a mask ("" for all lanes) restricted to the lanes that may load."""
        if self.load_mask is None or self.load_mask[1] != lanes:
            return mask
        outer = self.load_mask[0]
        return self.op(f"and <{lanes} x i1> {mask}, {outer}") if mask else outer

    def start(self, label: str) -> None:
        """Open the block `label`."""
        super().start(label)
        self.index_values.clear()
        self.numbered.clear()
        self.loaded.clear()

    def load(self, text: str, data: Var) -> str:
        """Return the value of a load through `data`, emitted once until the memory is stored to.

        LLVM also merges equal loads, but first it parses, copies and analyses each of them many
        times.
        """
        known = self.loaded.get(text)
        if known is None:
            known = self.loaded[text] = (self.op(text), data)
        return known[0]

    def forget_stored(self, data: Var) -> None:
        """Forget the loads that a store through `data` may have changed."""
        if data not in self.local_pointers:
            self.loaded.clear()
            return
        gone = [
            text
            for text, (_, other) in self.loaded.items()
            if other is data or other not in self.local_pointers
        ]
        for text in gone:
            del self.loaded[text]

    def forget_loads(self) -> None:
        """Forget all loads, because called code may store anywhere."""
        self.loaded.clear()

    def pure(self, text: str) -> str:
        """Return the value of an instruction without side effects, written once in a block."""
        known = self.numbered.get(text)
        if known is None:
            known = self.numbered[text] = self.op(text)
        return known

    def stmt(self, node: Stmt) -> None:
        """Write `node`."""
        handler = STATEMENTS.get(type(node))
        if handler is None:
            self.fail(f"{type(node).__name__} should have been removed by lowering")
        if self.module.statements is None:
            handler(self, node)
        else:
            self._located(node, handler, self.module.statements)

    def _located(self, node: Stmt, handler: StmtHandler, statements: list[Stmt]) -> None:
        """Write a statement; its instructions get its number as their line number."""
        statements.append(node)
        location = self.module.text.location(len(statements))
        first = len(self.lines)
        handler(self, node)
        for k in range(first, len(self.lines)):
            if self.lines[k][0] == " " and "!dbg" not in self.lines[k]:
                self.lines[k] += f", !dbg {location}"

    def index(self, node: PrimExpr) -> str:
        """Write the evaluation of an index; return it in the index type."""
        return INDEX[0](self, node)

    @property
    def index_type(self) -> str:
        """The index type in LLVM."""
        return register_type(self.index_dtype)

    def fits_index(self, interval: Interval | None) -> bool:
        """Return True if the index type holds all integers of an interval; False for None."""
        low, high = integer_limits(self.index_dtype)
        return interval is not None and low <= interval[0] and interval[1] <= high

    def splat(self, value: str, element_type: str, lanes: int) -> str:
        """Return `value` in each of `lanes` lanes; constants stay constants."""
        if lanes == 1:
            return value
        vector = f"<{lanes} x {element_type}>"
        if value[0] != "%" and value[0] != "@":
            return f"splat ({element_type} {value})"
        one = self.pure(f"insertelement {vector} poison, {element_type} {value}, i64 0")
        return self.pure(
            f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, kind: str, a: str, b: str, lanes: Iterable[int | None]) -> str:
        """Return the picked lanes of two vectors of type `kind`; a lane None may have any value."""
        picked = ["i32 poison" if lane is None else f"i32 {lane}" for lane in lanes]
        mask = f"<{len(picked)} x i32> <{', '.join(picked)}>"
        return self.pure(f"shufflevector {kind} {a}, {kind} {b}, {mask}")

    def call_intrinsic(self, name: str, result: str, args: list[tuple[str, str]]) -> str:
        """Call an LLVM intrinsic with `(type, value)` arguments, declaring it on first use."""
        types = ", ".join(kind for kind, _ in args)
        self.module.text.declare(name, f"declare {result} @{name}({types})")
        operands = ", ".join(f"{kind} {value}" for kind, value in args)
        call = f"call {result} @{name}({operands})"
        if result == "void":
            self.do(call)
            return ""
        return self.op(call)

    def math_intrinsic(self, name: str, dtype: DataType, *args: str) -> str:
        """Call `llvm.<name>` overloaded on `dtype`, all operands and the result of that type."""
        kind = register_type(dtype)
        return self.call_intrinsic(
            f"llvm.{name}.{mangled(dtype)}", kind, [(kind, arg) for arg in args]
        )

    def emit_select(
        self, test: str, kind: str, yes: str | Callable[[], str], no: str | Callable[[], str]
    ) -> str:
        """Return `yes` where a test holds, else `no`, both values of type `kind`.

        A side that is a function is called to write its value, in a block that runs only if it is
        chosen.
        """
        done, origin = self.new_label("chosen"), self.block
        sides = [(x, done if isinstance(x, str) else self.new_label("side")) for x in (yes, no)]
        self.branch_if(test, sides[0][1], sides[1][1])
        values = []
        for side, label in sides:
            if isinstance(side, str):
                values.append(f"[{side}, %{origin}]")
                continue
            self.start(label)
            value = side()
            values.append(f"[{value}, %{self.block}]")
            self.branch(done)
        self.start(done)
        return self.op(f"phi {kind} {', '.join(values)}")

    def leave_unless(self, condition: str, status: str) -> None:
        """Return a status where a condition does not hold."""
        holds, fails = self.new_label("holds"), self.new_label("fails")
        self.branch_if(condition, holds, fails)
        self.start(fails)
        self.return_status(status)
        self.start(holds)

    def return_status(self, status: str) -> None:
        """Return a status from the function."""
        self.module.dialect.leave(self, status)

    def fail(self, reason: str) -> NoReturn:
        """Raise CodegenError for this function."""
        raise CodegenError(f"cannot compile {self.name}: {reason}")


def mangled(dtype: DataType) -> str:
    """Return the suffix for `dtype` in the name of an overloaded LLVM intrinsic."""
    kind = register_type(dtype.element)
    short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(kind, kind)
    return short if dtype.lanes == 1 else f"v{dtype.lanes}{short}"


ExprHandler: TypeAlias = Callable[[FunctionEmitter, Any], str]
StmtHandler: TypeAlias = Callable[[FunctionEmitter, Any], None]
CallHandler: TypeAlias = Callable[[FunctionEmitter, Call], str]

EXPRESSIONS: Final[dict[type, ExprHandler]] = {}
STATEMENTS: Final[dict[type, StmtHandler]] = {}
INTRINSICS: Final[dict[str, CallHandler]] = {}
INDEX: Final[list[ExprHandler]] = []

H = TypeVar("H", bound=Callable[..., Any])


def _entering(table: dict[Any, Any]) -> Callable[..., Callable[[H], H]]:
    def enter(*keys: Any) -> Callable[[H], H]:
        def register(handler: H) -> H:
            table.update(dict.fromkeys(keys, handler))
            return handler

        return register

    return enter


emits = _entering(EXPRESSIONS)
"""Registers a function as the handler of classes of expressions."""
emits_stmt = _entering(STATEMENTS)
"""Registers a function as the handler of classes of statements."""
emits_call = _entering(INTRINSICS)
"""Registers a function as the handler of intrinsics, by their names."""
