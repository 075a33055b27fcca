"""The parameters of a sketch policy, and the parts of the search that they set."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self

from search.errors import TuningError
from search.schedule_rule import RandomComputeLocation, RFactorOverLanes, ScheduleRule
from search.schedule_rule.presets import CpuNumbers
from search.search_strategy import EvolutionarySearch
from search.space_generator.space_generator import preset_kind

if TYPE_CHECKING:
    from codegen import Target

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "str | None": (str,),
    "int | None": (int,),
    "float | None": (int, float),
}


@dataclass(frozen=True)
class SketchParams:
    """The parameters of `SketchPolicy(params=...)`, by Ansor's names.

    Where one is not given, or None, it is the search's own default, which may follow the budget.
    """

    eps_greedy: float | None = None
    """The share of a batch that is chosen at random (0.05)."""
    sample_init_min_population: int | None = None
    """The least number of random individuals of a population (16), and of the first sample (50)."""
    sample_init_use_measured_ratio: float | None = None
    """The share of a population that is the best measured ones (0.25)."""
    evolutionary_search_population: int | None = None
    """The size of a generation (by the budget, 64 to 2048)."""
    evolutionary_search_num_iters: int | None = None
    """The number of generations (3)."""
    evolutionary_search_mutation_prob: float | None = None
    """The probability of a mutation (0.85); other children are crosses, where Ansor copies one."""
    cpu_multi_level_tiling_structure: str | None = None
    """The levels of tiles (`"SSRSRS"`)."""
    max_innermost_split_factor: int | None = None
    """The longest innermost tile (64, on ARM 32)."""
    max_vectorize_size: int | None = None
    """The longest vector loop (64, on ARM 32; Ansor has 16)."""
    disable_change_compute_location: int | None = None
    """1 leaves blocks that are not tiled where the other rules put them (0)."""
    rules: str = "default"
    """`"ansor"` leaves out what Ansor has no rule for: `RFactorOverLanes`, and intrinsics."""
    retry_search_one_round_on_empty: int | None = None
    """Without effect: a batch that comes out empty means that nothing is left to be found."""
    gpu_multi_level_tiling_structure: str | None = None
    """Without effect: there are no targets with it."""

    @classmethod
    def of(cls, params: Mapping[str, Any] | None) -> Self:
        """Return checked parameters; TuningError names the one at fault, and near names."""
        types = {field.name: _TYPES[str(field.type)] for field in fields(cls)}
        for name, value in (params or {}).items():
            if name not in types:
                near = difflib.get_close_matches(name, types, 3)
                hint = f"did you mean {' or '.join(near)}?" if near else f"there are {list(types)}"
                raise TuningError(f"a sketch policy has no parameter {name!r}; {hint}")
            wanted = types[name]
            if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
                raise TuningError(f"{name} is of type {wanted[-1].__name__}, got {value!r}")
        made = cls(**(params or {}))
        if made.rules not in ("default", "ansor"):
            raise TuningError(f"rules is 'default' or 'ansor', got {made.rules!r}")
        return made

    def search_strategy(self) -> EvolutionarySearch:
        """Return the search; TuningError for numbers that make no sense."""
        given = {
            "eps_greedy": self.eps_greedy,
            "init_min_unmeasured": self.sample_init_min_population,
            "init_measured_ratio": self.sample_init_use_measured_ratio,
            "population_size": self.evolutionary_search_population,
            "genetic_num_iters": self.evolutionary_search_num_iters,
            "genetic_mutate_prob": self.evolutionary_search_mutation_prob,
        }
        changed: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        return EvolutionarySearch(**changed)

    def schedule_rules(self, target: Target) -> list[ScheduleRule]:
        """Return the rules that derive sketches for a target."""
        numbers: CpuNumbers = {}
        if self.cpu_multi_level_tiling_structure is not None:
            numbers["structure"] = self.cpu_multi_level_tiling_structure
        if self.max_innermost_split_factor is not None:
            numbers["innermost"] = self.max_innermost_split_factor
        if self.max_vectorize_size is not None:
            numbers["vector"] = self.max_vectorize_size
        left_out: list[type[ScheduleRule]] = []
        if self.rules == "ansor":
            numbers["intrins"] = ()
            left_out.append(RFactorOverLanes)
        if self.disable_change_compute_location:
            left_out.append(RandomComputeLocation)
        rules = ScheduleRule.create(preset_kind(target), **numbers)
        return [rule for rule in rules if not isinstance(rule, tuple(left_out))]
