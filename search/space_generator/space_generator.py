"""Space generators: the base class, `ScheduleFn`, the union, and the preset of a target."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from schedule import Schedule
from search.errors import TuningError
from search.kinds import Registry, TaskPart, instances
from search.mutator.mutator import Mutator
from search.postproc.postproc import Postproc
from search.schedule_rule.schedule_rule import ScheduleRule
from search.task import Task
from tensorir.errors import IRTypeError, IRValueError

if TYPE_CHECKING:
    from codegen import Target
    from search.space_generator.design_space import DesignSpace
    from tensorir.function import IRModule

RulesArg: TypeAlias = "Sequence[ScheduleRule] | str | None"
PostprocsArg: TypeAlias = "Sequence[Postproc] | str | None"
MutatorsArg: TypeAlias = "Mapping[Mutator, float] | str | None"
SpaceArg: TypeAlias = "SpaceGenerator | str | Callable[..., Any]"

FROM_TARGET: Literal["from-target"] = "from-target"

T = TypeVar("T")
Rules: TypeAlias = "Sequence[ScheduleRule] | str | Callable[[], Sequence[ScheduleRule]]"
Postprocs: TypeAlias = "Sequence[Postproc] | str | Callable[[], Sequence[Postproc]]"
MutatorProbs: TypeAlias = "Mapping[Mutator, float] | str | Callable[[], Mapping[Mutator, float]]"


class SpaceGenerator(TaskPart[Task], ABC):
    """Turns a program into design spaces: schedules whose traces contain sampling instructions.

    `sch_rules`, `postprocs` and `mutator_probs` are objects, the name of a preset (`"llvm"`,
    `"avx512"`, ...), or `"from-target"` (also None) for the preset of the target. Names are
    resolved when the generator is initialised with a task, and the attributes then hold objects.
    """

    kinds: ClassVar[Registry[SpaceGenerator]] = Registry(
        "space generator", {"post-order-apply": "search.space_generator.post_order_apply"}
    )

    def __init__(
        self,
        sch_rules: RulesArg = FROM_TARGET,
        postprocs: PostprocsArg = FROM_TARGET,
        mutator_probs: MutatorsArg = FROM_TARGET,
    ) -> None:
        self._given: dict[str, Any] = {
            "sch_rules": _check_parts(ScheduleRule, "sch_rules", sch_rules),
            "postprocs": _check_parts(Postproc, "postprocs", postprocs),
            "mutator_probs": _check_parts(Mutator, "mutator_probs", mutator_probs),
        }
        """The arguments: objects, or the name of a preset."""
        self.sch_rules: list[ScheduleRule] = []
        self.postprocs: list[Postproc] = []
        self.mutator_probs: dict[Mutator, float] = {}

    @staticmethod
    def create(kind: SpaceArg = "post-order-apply", *args: Any, **kwargs: Any) -> SpaceGenerator:
        """Return a generator.

        `kind` is a short name (`"post-order-apply"`, `"union"`, `"schedule-fn"`), the name of a
        preset (for a `PostOrderApply` with this preset), a schedule function `f(sch)` (for a
        `ScheduleFn` without rules, postprocessors and mutators), a function without parameters that
        returns any of these, a class, or a generator, which is returned unchanged.
        """
        if callable(kind) and not isinstance(kind, type):
            if _takes_nothing(kind):
                return SpaceGenerator.create(kind(), *args, **kwargs)
            bare: dict[str, Any] = {"sch_rules": [], "postprocs": [], "mutator_probs": {}}
            return SpaceGenerator.kinds.make("schedule-fn", kind, *args, **{**bare, **kwargs})
        if (
            isinstance(kind, str)
            and kind not in SpaceGenerator.kinds
            and kind in ScheduleRule.kinds
        ):
            preset = {"sch_rules": kind, "postprocs": kind, "mutator_probs": kind}
            return SpaceGenerator.kinds.make("post-order-apply", *args, **{**preset, **kwargs})
        return SpaceGenerator.kinds.part(kind, *args, **kwargs)

    def _initialize_with_tune_context(self, context: Task) -> None:
        """Resolve presets by the target and initialise every rule, postprocessor and mutator."""
        super()._initialize_with_tune_context(context)
        self.sch_rules = list(self._resolve("sch_rules", ScheduleRule.create))
        self.postprocs = list(self._resolve("postprocs", Postproc.create))
        self.mutator_probs = dict(self._resolve("mutator_probs", Mutator.create))
        for part in (*self.sch_rules, *self.postprocs, *self.mutator_probs):
            part._initialize_with_tune_context(context)

    def _resolve(self, name: str, create: Callable[[str], Any]) -> Any:
        """Return the rules, postprocessors or mutators of an argument."""
        given = self._given[name]
        if not isinstance(given, str):
            return given
        assert self.context is not None
        if given == FROM_TARGET:
            given = None if self.context.target is None else preset_kind(self.context.target)
        return create(given) if given else ()

    @abstractmethod
    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return the design spaces of `mod`, each as a schedule whose trace is one of its points.

        An implementation starts from `fresh_schedule`.
        """

    def some_design_spaces(self, mod: IRModule, most: int) -> list[Schedule]:
        """Return at most `most` of the design spaces, evenly chosen."""
        spaces = self.generate_design_space(mod)
        return spaces[:: -(-len(spaces) // most)] if spaces else spaces

    def part_of(self, space: DesignSpace) -> DesignSpace:
        """Return the part of a space of this generator that a search may use; here all of it."""
        return space

    def fresh_schedule(self, mod: IRModule) -> Schedule:
        """Return a schedule of `mod` with a seed from the random stream of the task."""
        return Schedule(mod, seed=None if self.context is None else self.context.fork_seed())

    def clone(self) -> Self:
        """Return a generator for another task, with cloned rules, postprocessors and mutators."""
        twin = super().clone()
        twin._given = {name: _clone(given) for name, given in self._given.items()}
        twin.sch_rules, twin.postprocs, twin.mutator_probs = [], [], {}
        return twin


PySpaceGenerator = SpaceGenerator
"""TVM's name of the base class of user-defined generators."""


def preset_kind(target: Target) -> str:
    """Return the name of the presets for the instruction set of a target.

    It is `amx`, `vnni`, `avx512` or `avx2` on x86 if the target has these extensions and uses
    vectors of their length, `dotprod` or `asimd` on ARM, else `llvm`. GPUs use `cuda-tensorcore` if
    they have tensor cores (CUDA from `sm_70` on), else `cuda`.
    """
    if target.gpu is not None:
        return "cuda-tensorcore" if target.gpu.tensor_core_dtypes else "cuda"
    features, bits = target.features, target.vector_bits
    if bits >= 512 and "amx-int8" in features and "amx-bf16" in features:
        return "amx"
    if bits >= 256 and ("avxvnni" in features or "avx512vnni" in features):
        return "vnni"
    if bits >= 512 and "avx512bw" in features:
        return "avx512"
    if bits >= 256 and "avx2" in features:
        return "avx2"
    if "dotprod" in features:
        return "dotprod"
    if "neon" in features:
        return "asimd"
    return "llvm"


def _check_parts(base: type[Any], name: str, given: Any) -> Any:
    """Return objects or the name of a preset; IRValueError for any other argument."""
    if given is None or isinstance(given, str):
        return given or FROM_TARGET
    if base is Mutator and not isinstance(given, Mapping):
        raise IRValueError(f"{name} maps mutators to weights, got {given!r}")
    parts = instances(base, name, given)
    return given if base is Mutator else parts


def _clone(given: Any) -> Any:
    """Return a clone of the rules, postprocessors or mutators."""
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return {part.clone(): weight for part, weight in given.items()}
    return [part.clone() for part in given]


def _takes_nothing(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return not any(p.kind in (*positional, inspect.Parameter.VAR_POSITIONAL) for p in parameters)


@SpaceGenerator.kinds.register("schedule-fn")
class ScheduleFn(SpaceGenerator):
    """Calls `sch_fn(sch)` on a fresh schedule.

    The function transforms its argument and returns None, or returns a schedule or a list of
    schedules. Raises IRTypeError for any other result. `sch_rules` are ignored.
    """

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: RulesArg = FROM_TARGET,
        postprocs: PostprocsArg = FROM_TARGET,
        mutator_probs: MutatorsArg = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return the schedules of the function."""
        sch = self.fresh_schedule(mod)
        made = self.sch_fn(sch)
        if made is None:
            return [sch]
        if isinstance(made, Schedule):
            return [made]
        if isinstance(made, list) and all(isinstance(one, Schedule) for one in made):
            return made
        raise IRTypeError(
            f"{getattr(self.sch_fn, '__name__', 'the schedule function')} returned "
            f"{type(made).__name__}; a schedule function returns None, a Schedule or a list of "
            "Schedules"
        )


@SpaceGenerator.kinds.register("union")
class SpaceGeneratorUnion(SpaceGenerator):
    """Concatenates the spaces of its members, and has its own postprocessors and mutators."""

    def __init__(
        self,
        space_generators: Sequence[SpaceArg],
        sch_rules: RulesArg = FROM_TARGET,
        postprocs: PostprocsArg = FROM_TARGET,
        mutator_probs: MutatorsArg = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = [SpaceGenerator.create(member) for member in space_generators]

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        for member in self.space_generators:
            member._initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return the spaces of all members, in order."""
        return [sch for g in self.space_generators for sch in g.generate_design_space(mod)]

    def clone(self) -> SpaceGeneratorUnion:
        """Return a union of clones."""
        twin = super().clone()
        twin.space_generators = [member.clone() for member in self.space_generators]
        return twin


def space_from_parts(
    space: SpaceArg | None = None,
    blocks: Sequence[str] | None = None,
    sch_rules: Rules | None = None,
    postprocs: Postprocs | None = None,
    mutator_probs: MutatorProbs | None = None,
) -> SpaceGenerator:
    """Return a space generator; the target decides about omitted parts.

    `blocks` restricts the rules to blocks of these names. The last three arguments are those of a
    space generator's constructor, or functions without parameters that return them. TuningError for
    arguments that exclude each other, IRValueError for parts of a wrong type.
    """
    given = {"sch_rules": sch_rules, "postprocs": postprocs, "mutator_probs": mutator_probs}
    parts: dict[str, Any] = {
        name: _instance(part) for name, part in given.items() if part is not None
    }
    if blocks is not None:
        if space is not None:
            raise TuningError("blocks filters the default space: pass either blocks or space")
        names = frozenset(blocks)
        parts["f_block_filter"] = lambda block: block.name_hint in names
    if isinstance(space, SpaceGenerator) and parts:
        raise TuningError(
            f"{', '.join(parts)} cannot be combined with a space generator that was already made; "
            "pass them to its constructor"
        )
    return SpaceGenerator.create("post-order-apply" if space is None else space, **parts)


def _instance(part: T | Callable[[], T]) -> T | Any:
    return part() if callable(part) and not isinstance(part, type) else part
