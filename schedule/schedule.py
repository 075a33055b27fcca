"""`Schedule`: a program, the random variables that point into it, and the trace of its changes."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, overload
from weakref import ReferenceType, WeakSet, ref

from schedule.decisions.domain import DecisionDomain, NoDecision
from schedule.errors import (
    EXPIRED,
    IMPOSSIBLE,
    OUT_OF_SCOPE,
    UNKNOWN,
    ArgumentError,
    ArgumentTypeError,
    ExpiredHandleError,
    ImpossibleError,
    RenderLevel,
    ScheduleError,
    UnknownHandleError,
    fail,
)
from schedule.handles import BlockRV, Handle, HandleTable, LoopRV
from schedule.instruction import Instruction, InstructionKind, Sampled
from schedule.methods import PrimitiveMethods
from schedule.operands.operand import Call, substituted, variables_of
from schedule.operands.values import matches, type_text
from schedule.primitives.decompose_padding import decompose_padding
from schedule.primitives.lookup import get_block
from schedule.random_state import RandomState, normalize_seed
from schedule.sref import INLINE_MARK, ROOT_MARK, StmtSRef
from schedule.state import DEBUG_VERIFY_FLAGS, DEBUG_VERIFY_TREE, ScheduleState
from schedule.trace import Trace
from schedule.trace.python_text import handle_text
from tensorir.arith import Analyzer
from tensorir.dialect import Dialect
from tensorir.errors import IRTypeError, IRValueError, WellFormedError
from tensorir.extensions import EXPLORER, extension
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.nodes.stmt import Block, For
from tensorir.recursion import any_depth
from tensorir.rewriting.visit import collect_vars, substitute
from tensorir.verify import verify_well_formed

_MARKS: Final[dict[LoopRV, StmtSRef]] = {
    LoopRV.inline_rv(): INLINE_MARK,
    LoopRV.root_rv(): ROOT_MARK,
}

# A search makes thousands of schedules of one program, which is checked only once.
_WELL_FORMED: Final[WeakSet[PrimFunc]] = WeakSet()


class Schedule(PrimitiveMethods):
    """A module whose tensor functions are transformed; its graph functions stay.

    `mod` is the current program, `trace` the record of its changes. `seed` (None for entropy of the
    device, else an int in [1, 2**31 - 1]) determines every sampled decision. `debug_mask` is
    `"none"`, `"all"` or an int (bit 1: check the references after each primitive, bit 2: verify
    the program). `error_render_level` is `"detail"`, `"fast"` or `"none"`. `enable_check=False`
    skips the prerequisites that the primitives' documentation marks as such.

    Raises TypeError or ValueError for arguments of the wrong kind, WellFormedError for a program
    that is not well-formed.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: RenderLevel = "detail",
        enable_check: bool = True,
    ) -> None:
        if not isinstance(enable_check, bool):
            raise TypeError(f"enable_check takes a bool, got {type(enable_check).__name__}")
        if error_render_level not in ("detail", "fast", "none"):
            raise ValueError(
                f"error_render_level must be 'detail', 'fast' or 'none', got {error_render_level!r}"
            )
        self._rng = RandomState(_checked_seed(seed))
        self.error_render_level: RenderLevel = error_render_level
        self.keeps_domains = True
        """True if each sampling instruction keeps its domain, even if the decision is given.

        It is False while traces are replayed that no search mutates."""
        if not isinstance(mod, (IRModule, PrimFunc)):
            raise IRTypeError(f"Schedule takes an IRModule or PrimFunc, got {type(mod).__name__}")
        self.state = ScheduleState(
            mod, debug_mask=_checked_mask(debug_mask), enable_check=enable_check
        )
        self.initial_mod: IRModule = self.state.mod
        """The program that the trace starts from."""
        for func in self.mod.prim_funcs().values():
            if func not in _WELL_FORMED:
                verify_well_formed(func)
                _WELL_FORMED.add(func)
        self.trace: Trace = Trace()
        self._table: dict[Any, StmtSRef | int | None] = dict(_MARKS)
        self._func_working_on = _default_function(self.state.mod)

    # -------------------------------------------------------------------------------- the program

    @property
    def mod(self) -> IRModule:
        """The current program. A module that was handed out earlier never changes."""
        return self.state.mod

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The default function of `get_block`."""
        return None if self._func_working_on is None else GlobalVar(self._func_working_on)

    def work_on(self, func_name: str) -> None:
        """Choose the function in which `get_block` looks.

        Raises ValueError, which lists the functions, for an unknown name; TypeError for a graph
        function.
        """
        if not isinstance(func_name, str):
            _refuse("work_on", "func_name", "a str", func_name)
        self.mod.prim_func(func_name)  # raises for an unknown name and for a graph function
        self._func_working_on = func_name

    def copy(self) -> Schedule:
        """Return an independent schedule of the same program.

        Handles made so far are valid in both. The copy's random stream is forked from this one's.
        """
        twin = Schedule.__new__(Schedule)
        twin.state, srefs = self.state.copy()
        twin._table = {
            rv: srefs.get(value, value) if isinstance(value, StmtSRef) else value
            for rv, value in self._table.items()
        }
        twin.initial_mod = self.initial_mod
        twin.trace = self.trace.copy()
        twin._rng = RandomState(self.fork_seed())
        twin.error_render_level = self.error_render_level
        twin.keeps_domains = self.keeps_domains
        twin._func_working_on = self._func_working_on
        return twin

    def seed(self, seed: int) -> None:
        """Reset the random stream; -1 takes entropy from the device, other negatives are errors."""
        if not isinstance(seed, int):
            _refuse("seed", "seed", "an int", seed)
        self._rng.state = normalize_seed(seed)

    def fork_seed(self) -> int:
        """Advance the random stream and return a seed for an independent one."""
        return self._rng.fork()

    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """Find a block: `get_block` under its name in newer releases of TVM."""
        return self.get_block(name, func_name)

    def show(self, *, dialect: Dialect = "tensorir", **options: Any) -> None:
        """Show the program, then the trace; for the options see `print_script`."""
        self.mod.show(dialect=dialect, **options)
        self.trace.show(dialect=dialect)

    def explore(self, target: Any = None, func_name: str | None = None) -> Any:
        """Return an explorer: the program after each step with its costs, and editable decisions.

        A notebook shows it, and `.save(path)` writes it as a page. For the arguments see
        `search.explorer.Explorer`. ImportError if the package `search` is not installed.
        """
        explorer = extension(EXPLORER)
        if explorer is None:
            raise ImportError("an explorer of schedules is part of tensorir: pip install tensorir")
        return explorer(self, target, func_name)

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.mod.functions))
        return f"<{type(self).__name__} of {names}: {self.trace.summary()}>"

    def _repr_html_(self) -> str:
        heading = html.escape(repr(self))
        trace = f"<details><summary>{heading}</summary>{self.trace._repr_html_()}</details>"
        return self.mod._repr_html_() + trace

    # ------------------------------------------------------------------------------------ handles

    @overload
    def get(self, rv_or_sref: BlockRV) -> Block: ...
    @overload
    def get(self, rv_or_sref: LoopRV) -> For: ...
    @overload
    def get(self, rv_or_sref: PrimExpr) -> int | None: ...
    @overload
    def get(self, rv_or_sref: StmtSRef) -> Block | For | None: ...
    def get(self, rv_or_sref: Any) -> Any:
        """Return the value of a handle: a block, a loop, or the number that was sampled.

        Raises UnknownHandleError (an IndexError) for a handle of another schedule, and
        ExpiredHandleError (a ValueError) for a handle whose loop or block was consumed by a
        primitive.
        """
        if isinstance(rv_or_sref, StmtSRef):
            return rv_or_sref.stmt
        if isinstance(rv_or_sref, PrimExpr):
            return self._evaluate(rv_or_sref)
        return self.get_sref(rv_or_sref).stmt

    def get_sref(self, rv_or_stmt: BlockRV | LoopRV | Block | For) -> StmtSRef:
        """Return the reference behind a handle or a statement of the current program."""
        if isinstance(rv_or_stmt, (Block, For)):
            return self.state.get_sref(rv_or_stmt)
        if not isinstance(rv_or_stmt, (BlockRV, LoopRV)):
            _refuse("get_sref", "rv_or_stmt", "a BlockRV, LoopRV, Block or For", rv_or_stmt)
        sref = self._table.get(rv_or_stmt)
        what = "block" if isinstance(rv_or_stmt, BlockRV) else "loop"
        if not isinstance(sref, StmtSRef):
            raise UnknownHandleError(UNKNOWN, values={"what": what + " handle"})
        if sref.stmt is None and sref is not INLINE_MARK and sref is not ROOT_MARK:
            by = f": {sref.consumed_by.replace('_', '-')} replaced it" if sref.consumed_by else ""
            raise ExpiredHandleError(EXPIRED, values={"what": what, "by": by})
        return sref

    def meaning_of(self, rv: Handle) -> str:
        """Return the name of a handle in the trace and its value: `l1: for j_0 in range(8)`."""
        value = self._table.get(rv)
        return handle_text(rv, value if isinstance(value, StmtSRef) else None, self.trace.insts)

    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> bool:
        """Return whether `decompose_padding` accepts a block and a loop; nothing is recorded."""
        if isinstance(block, str):
            found = get_block(self.state, block, self.function_to_search())
        else:
            found = self.get_sref(block)
        place = self.get_sref(loop)
        try:
            decompose_padding(self.state, found, place)
            if self.state.has_definitions:
                _check_names_defined(self.state.mod)
        except ScheduleError:
            return False
        finally:
            self.state.rollback()
        return True

    def remove_rv(self, rv: BlockRV | LoopRV | Var) -> None:
        """Forget a handle; using it afterwards is an error."""
        if not isinstance(rv, (BlockRV, LoopRV, Var)):
            _refuse("remove_rv", "rv", "a BlockRV, LoopRV or ExprRV", rv)
        if rv not in self._table:
            raise UnknownHandleError(UNKNOWN, values={"what": "handle"})
        del self._table[rv]

    def bind_index_map(self, index_map: IndexMap) -> IndexMap:
        """Return `index_map` with the sampled numbers in it filled in."""
        known = [v for v in variables_of(index_map) if v in self._table]
        values = {v: n for v in known if (n := self._evaluate(v)) is not None}
        bound: IndexMap = substituted(index_map, values) if values else index_map
        return bound

    def _evaluate(self, expr: PrimExpr) -> int | None:
        if type(expr) is Var:
            if expr not in self._table:
                raise UnknownHandleError(UNKNOWN, values={"what": f"number `{expr.name}`"})
            value = self._table[expr]
            assert value is None or isinstance(value, int)
            return value
        if isinstance(expr, IntImm):
            return expr.value
        values = {v: self._evaluate(v) for v in collect_vars(expr)}
        known = {v: n for v, n in values.items() if n is not None}
        result = Analyzer().simplify(substitute(expr, known))
        if not isinstance(result, IntImm):
            raise IRValueError(f"`{expr}` is not a constant number: it simplifies to `{result}`")
        return result.value

    # ------------------------------------------------------------------------------ several at once

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Apply the primitives of a `with` block together: all of them, or none.

        If the block raises, the program, the trace, the handles and the random stream are again
        what they were before it, and the error goes on.
        """
        state = self.state
        point, length = state.open_savepoint(), len(self.trace.insts)
        table, seed, working_on = dict(self._table), self._rng.state, self._func_working_on
        try:
            yield
        except BaseException:
            state.restore(point)
            self.trace.truncate(length)
            self._table, self._rng.state, self._func_working_on = table, seed, working_on
            raise
        finally:
            state.close_savepoint()

    @contextmanager
    def composite(self, name: str, arguments: str = "") -> Iterator[None]:
        """Record the primitives of a `with` block as one step of the trace, called `name`.

        `arguments` is a text that the trace shows behind the name. The block is a `transaction`.
        The trace has its instructions between two marks, so that a replay needs neither the block
        nor a function of that name. `schedule.composite` makes such a step of a function.
        """
        with self.transaction():
            self.enter_composite(name, arguments)
            yield
            self.exit_composite()

    # ----------------------------------------------------------------------------------- applying

    def _call(self, kind: InstructionKind, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run a primitive on a user's arguments: check them, apply, record."""
        length = len(self.trace.insts)
        try:
            call = Call(self, kind.method)
            decision = kwargs.pop("decision", None) if kind.has_decision else None
            given = kind.bind(args, kwargs)
            if len(given) > len(kind.params):
                decision = given.pop()
            if kind.name == "GetBlock" and given[1] is None:
                given[1] = self.function_to_search()
            values = [call.accept(p, v) for p, v in zip(kind.params, given, strict=True)]
            outputs = self.invoke(kind, values, decision)
            for name, operands in call.follow_ups:
                self.invoke(InstructionKind.get(name), operands)
        except BaseException as error:
            self.trace.truncate(length)
            self._raise_refusal(error, kind)
            raise
        if kind.several:
            return outputs
        return outputs[0] if kind.result else None

    @any_depth
    def invoke(
        self, kind: InstructionKind, values: Sequence[Any], decision: Any = None
    ) -> list[Any]:
        """Apply a primitive to recorded arguments, record the instruction, return its outputs.

        Every change of the program goes through this method; replaying a trace calls it directly.
        """
        state = self.state
        state.running = kind.method
        domain: DecisionDomain | None = None
        try:
            operands: list[Any] = []
            options: dict[str, Any] = {}
            for param, value, varies in zip(kind.params, values, kind.varies, strict=True):
                operand = value
                if varies:
                    operand = param.operand.resolve(self, kind.method, param, value)
                if param.variadic:
                    operands.extend(operand)
                elif param.keyword_only:
                    options[param.name] = operand
                else:
                    operands.append(operand)
            if kind.has_decision:
                if not matches(kind.decision_type, decision):
                    expected = type_text(kind.decision_type)
                    raise ArgumentTypeError(kind.method, "decision", expected, decision)
                if kind.domain is not None and not kind.returns_domain:
                    if decision is None or self.keeps_domains or kind.takes_domain:
                        domain = kind.domain(state, *operands, **options)
                    if kind.takes_domain:
                        options["domain"] = domain
                if not kind.returns_domain:
                    options.update(rng=self._rng, decision=decision)
            result = kind.function(state, *operands, **options)
            if kind.returns_domain:
                domain = result
                result, decision = self._choose(result, decision)
            elif kind.has_decision:
                assert isinstance(result, Sampled)
                result, decision = result.value, result.decision
            if state.has_definitions and not kind.is_pure:
                _check_names_defined(state.mod)
            if state.debug_mask & DEBUG_VERIFY_TREE:
                state.verify()
            if state.debug_mask & DEBUG_VERIFY_FLAGS:
                verify_well_formed(state.mod)
        except BaseException as error:
            state.rollback()
            self._raise_refusal(error, kind)
            raise
        state.commit()
        outputs = self._outputs(kind, result)
        self.trace.append(Instruction(kind, values, outputs, domain), decision)
        return outputs

    def _choose(self, domain: DecisionDomain, decision: Any) -> tuple[Any, Any]:
        """Return the outputs of an alternative, and the alternative (drawn unless given)."""
        try:
            chosen = domain.decide(self._rng, decision)
        except NoDecision:
            raise
        except ValueError as error:
            raise NoDecision("decision", str(error)) from None
        return domain.outputs(chosen), chosen

    def _outputs(self, kind: InstructionKind, result: Any) -> list[Any]:
        if not kind.result:
            return []
        table, handle = self._table, kind.handle
        maker: ReferenceType[HandleTable] = ref(self)
        outputs: list[Any] = []
        for value in result if kind.several else [result]:
            if value is None:
                outputs.append(None)
                continue
            rv = Var(f"v{len(table) - len(_MARKS)}") if handle is None else handle(maker)
            table[rv] = value
            outputs.append(rv)
        return outputs

    def function_to_search(self) -> str:
        """Return the name of the function of `func_working_on`; IRValueError if none is chosen."""
        if self._func_working_on is None:
            raise IRValueError(
                "get_block needs func_name: the module has several tensor functions, "
                f"{sorted(self.mod.prim_funcs())}, and none is called main; or call work_on first"
            )
        return self._func_working_on

    def _raise_refusal(self, error: BaseException, kind: InstructionKind) -> None:
        """Raise an error of a primitive that concerns the program or the arguments, located."""
        if isinstance(error, (IRValueError, IRTypeError)):
            # The program would be invalid, for example by a number beyond the type of a loop.
            raised: ScheduleError = ImpossibleError(IMPOSSIBLE, values={"reason": error})
            self._locate(raised, kind)
            raise raised from error
        if isinstance(error, NoDecision):
            raised = ArgumentError(kind.method, error.path, str(error))
            self._locate(raised, kind)
            raise raised from None
        if isinstance(error, ScheduleError):
            self._locate(error, kind)

    def _locate(self, error: ScheduleError, kind: InstructionKind) -> None:
        if error.mod is None:
            error.primitive = error.primitive or kind.call_name
            error.mod = self.mod
            error.render_level = self.error_render_level


def _check_names_defined(mod: IRModule) -> None:
    """Raise ScheduleError if a primitive moved a use of a name out of the definition's scope."""
    try:
        verify_well_formed(IRModule(mod.prim_funcs()))
    except WellFormedError as error:
        fail(OUT_OF_SCOPE, reason=error)


def _refuse(method: str, name: str, expected: str, value: object) -> NoReturn:
    raise TypeError(
        f"Schedule.{method}: `{name}` takes {expected}, got {type(value).__name__}: {value!r}"
    )


def _checked_seed(seed: int | None) -> int:
    if seed is None:
        return -1
    if type(seed) is not int:
        raise TypeError(f"seed takes an int or None, got {type(seed).__name__}")
    if not 1 <= seed <= 2147483647:
        raise ValueError(f"seed must be an int in [1, 2147483647], got {seed}")
    return seed


def _checked_mask(mask: str | int) -> int:
    if isinstance(mask, str):
        if mask not in ("all", "none"):
            raise ValueError(f"debug_mask must be 'all', 'none' or an int, got {mask!r}")
        return DEBUG_VERIFY_TREE | DEBUG_VERIFY_FLAGS if mask == "all" else 0
    if not isinstance(mask, int):
        raise TypeError(f"debug_mask takes a str or int, got {type(mask).__name__}")
    if mask < -1:
        raise ValueError(f"debug_mask must be at least -1, got {mask}")
    return DEBUG_VERIFY_TREE | DEBUG_VERIFY_FLAGS if mask == -1 else int(mask)


def _default_function(mod: IRModule) -> str | None:
    functions = mod.prim_funcs()
    for name, func in functions.items():
        entry = func.attrs.get("tir.is_entry_func")
        if isinstance(entry, IntImm) and entry.value:
            return name
    if "main" in functions:
        return "main"
    return next(iter(functions)) if len(functions) == 1 else None
