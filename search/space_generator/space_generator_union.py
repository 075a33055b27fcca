"""The design spaces of several generators together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search.space_generator.space_generator import (
    FROM_TARGET,
    MutatorsArg,
    PostprocsArg,
    RulesArg,
    SpaceArg,
    SpaceGenerator,
)

if TYPE_CHECKING:
    from schedule import Schedule
    from search.context import TuneContext
    from tensorir.function import IRModule


@SpaceGenerator.kinds.register("union")
class SpaceGeneratorUnion(SpaceGenerator):
    """Concatenates the spaces of its members; postprocessors and mutators are its own."""

    def __init__(
        self,
        space_generators: Sequence[SpaceArg],
        sch_rules: RulesArg = FROM_TARGET,
        postprocs: PostprocsArg = FROM_TARGET,
        mutator_probs: MutatorsArg = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = [SpaceGenerator.create(member) for member in space_generators]

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        for member in self.space_generators:
            member._initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return the spaces of the members in their order."""
        return [sch for g in self.space_generators for sch in g.generate_design_space(mod)]

    def clone(self) -> SpaceGeneratorUnion:
        """Return a union of clones."""
        twin = super().clone()
        twin.space_generators = [member.clone() for member in self.space_generators]
        return twin
