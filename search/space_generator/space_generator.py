"""The base class of space generators, and the presets of each target."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from schedule import Schedule
from search.kinds import Kinds, instances
from search.mutator.mutator import Mutator
from search.postproc.postproc import Postproc
from search.schedule_rule.schedule_rule import ScheduleRule
from tensorir.errors import IRValueError

if TYPE_CHECKING:
    from codegen import Target
    from search.context import TuneContext
    from tensorir.function import IRModule

RulesArg: TypeAlias = "Sequence[ScheduleRule] | str | None"
PostprocsArg: TypeAlias = "Sequence[Postproc] | str | None"
MutatorsArg: TypeAlias = "Mapping[Mutator, float] | str | None"
SpaceArg: TypeAlias = "SpaceGenerator | str | Callable[..., Any]"

FROM_TARGET: Literal["from-target"] = "from-target"


class SpaceGenerator(ABC):
    """Turns a program into design spaces: schedules whose traces hold undecided samplings.

    `sch_rules`, `postprocs` and `mutator_probs` are given as objects, as the name of a preset
    (`"llvm"`, `"avx512"`, ...), or as `"from-target"` (also None), which is resolved when the
    generator is initialised with a task; from then on they hold the objects.
    """

    kinds: ClassVar[Kinds[SpaceGenerator]] = Kinds("space generator")

    _context: TuneContext | None = None
    """The task, from initialisation on."""

    def __init__(
        self,
        sch_rules: RulesArg = FROM_TARGET,
        postprocs: PostprocsArg = FROM_TARGET,
        mutator_probs: MutatorsArg = FROM_TARGET,
    ) -> None:
        if not (sch_rules is None or isinstance(sch_rules, str)):
            sch_rules = instances(ScheduleRule, "sch_rules", sch_rules)
        if not (postprocs is None or isinstance(postprocs, str)):
            postprocs = instances(Postproc, "postprocs", postprocs)
        if not (mutator_probs is None or isinstance(mutator_probs, str)):
            if not isinstance(mutator_probs, Mapping):
                raise IRValueError(f"mutator_probs maps mutators to weights, got {mutator_probs!r}")
            instances(Mutator, "mutator_probs", mutator_probs)
        self._rules_arg = sch_rules
        self._postprocs_arg = postprocs
        self._mutators_arg = mutator_probs
        self.sch_rules: list[ScheduleRule] = []
        self.postprocs: list[Postproc] = []
        self.mutator_probs: dict[Mutator, float] = {}

    @staticmethod
    def create(kind: SpaceArg = "post-order-apply", *args: Any, **kwargs: Any) -> SpaceGenerator:
        """Return a generator.

        `kind` is a short name (`"post-order-apply"`, `"union"`, `"schedule-fn"`), the name of a
        preset (a `PostOrderApply` with it), a schedule function `f(sch)` (a `ScheduleFn` without
        rules, postprocessors and mutators), a function without parameters that returns a
        generator, the class of a generator, or a generator, which is returned as it is.
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
        made: SpaceGenerator = SpaceGenerator.kinds.part(SpaceGenerator, kind, *args, **kwargs)
        return made

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        """Resolve presets by the target and initialise every rule, postprocessor and mutator."""
        self._context = context
        target = context.target
        self.sch_rules = self._resolved_rules(target)
        self.postprocs = self._resolved_postprocs(target)
        self.mutator_probs = self._resolved_mutators(target)
        parts: list[ScheduleRule | Postproc | Mutator] = [
            *self.sch_rules,
            *self.postprocs,
            *self.mutator_probs,
        ]
        for part in parts:
            part._initialize_with_tune_context(context)

    def _resolved_rules(self, target: Target | None) -> list[ScheduleRule]:
        given = self._rules_arg
        if given is None or isinstance(given, str):
            preset = _preset(given, target)
            return ScheduleRule.create(preset) if preset else []
        return list(given)

    def _resolved_postprocs(self, target: Target | None) -> list[Postproc]:
        given = self._postprocs_arg
        if given is None or isinstance(given, str):
            preset = _preset(given, target)
            return Postproc.create(preset) if preset else []
        return list(given)

    def _resolved_mutators(self, target: Target | None) -> dict[Mutator, float]:
        given = self._mutators_arg
        if given is None or isinstance(given, str):
            preset = _preset(given, target)
            return Mutator.create(preset) if preset else {}
        return dict(given)

    @abstractmethod
    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return the design spaces of `mod` as schedules, simplest form of a space being a trace.

        They begin with `fresh_schedule`.
        """

    def fresh_schedule(self, mod: IRModule) -> Schedule:
        """Return a schedule of `mod` with a seed of the task that this was initialised with."""
        return Schedule(mod, seed=None if self._context is None else self._context.fork_seed())

    def clone(self) -> Self:
        """Return a generator for another task, with rules, postprocessors and mutators cloned."""
        twin = copy.copy(self)
        if isinstance(self._rules_arg, Sequence) and not isinstance(self._rules_arg, str):
            twin._rules_arg = [rule.clone() for rule in self._rules_arg]
        if isinstance(self._postprocs_arg, Sequence) and not isinstance(self._postprocs_arg, str):
            twin._postprocs_arg = [postproc.clone() for postproc in self._postprocs_arg]
        if isinstance(self._mutators_arg, Mapping):
            twin._mutators_arg = {m.clone(): weight for m, weight in self._mutators_arg.items()}
        twin.sch_rules, twin.postprocs, twin.mutator_probs = [], [], {}
        twin._context = None
        return twin


PySpaceGenerator = SpaceGenerator
"""The base class under the name that it has for user classes in TVM."""


def preset_kind(target: Target) -> str:
    """Return the name of the presets that suit a target.

    By instruction set: `amx`, `vnni`, `avx512` or `avx2` on x86 with those extensions and vectors
    as long in use, `dotprod` or `asimd` on ARM, else `llvm`.
    """
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


def _preset(given: str | None, target: Target | None) -> str | None:
    """Return the preset that a constructor argument means, None for a task without a target."""
    if given is not None and given != FROM_TARGET:
        return given
    return None if target is None else preset_kind(target)


def _takes_nothing(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return not any(p.kind in (*positional, inspect.Parameter.VAR_POSITIONAL) for p in parameters)
