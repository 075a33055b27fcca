"""The parameters of a sketch policy by Ansor's names, and the parts of the search that they set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from search.errors import TuningError
from search.kinds import nearest
from search.schedule_rule import RandomComputeLocation, RFactorOverLanes, ScheduleRule
from search.search_strategy import EvolutionarySearch
from search.space_generator.space_generator import preset_kind

if TYPE_CHECKING:
    from codegen import Target

_OF_STRATEGY: Final = {
    "eps_greedy": "eps_greedy",
    "sample_init_min_population": "init_min_unmeasured",
    "sample_init_use_measured_ratio": "init_measured_ratio",
    "evolutionary_search_population": "population_size",
    "evolutionary_search_num_iters": "genetic_num_iters",
    "evolutionary_search_mutation_prob": "genetic_mutate_prob",
}
_OF_RULES: Final = {
    "cpu_multi_level_tiling_structure": "structure",
    "max_innermost_split_factor": "innermost",
    "max_vectorize_size": "vector",
}
_TYPES: Final[dict[str, type]] = {
    **dict.fromkeys([*_OF_STRATEGY, *_OF_RULES, "disable_change_compute_location"], int),
    "eps_greedy": float,
    "sample_init_use_measured_ratio": float,
    "evolutionary_search_mutation_prob": float,
    "cpu_multi_level_tiling_structure": str,
    "rules": str,
}
_WITHOUT_EFFECT: Final = {
    "retry_search_one_round_on_empty": "an empty batch means that nothing is left to be found",
    "gpu_multi_level_tiling_structure": "there are no GPUs among the targets",
}


def checked_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return those parameters that are not None; TuningError names the one at fault."""
    given = {name: value for name, value in (params or {}).items() if value is not None}
    for name, value in given.items():
        if name in _WITHOUT_EFFECT:
            raise TuningError(f"leave out {name}, which has no effect: {_WITHOUT_EFFECT[name]}")
        if name not in _TYPES:
            hint = nearest(name, _TYPES) or f"; there are {list(_TYPES)}"
            raise TuningError(f"a sketch policy has no parameter {name!r}{hint}")
        wanted = _TYPES[name]
        accepted = (int, float) if wanted is float else wanted
        if not isinstance(value, accepted) or isinstance(value, bool):
            raise TuningError(f"{name} is of type {wanted.__name__}, got {value!r}")
    if given.get("rules", "default") not in ("default", "ansor"):
        raise TuningError(f"rules is 'default' or 'ansor', got {given['rules']!r}")
    return given


def search_strategy(params: Mapping[str, Any]) -> EvolutionarySearch:
    """Return the search; TuningError for numbers that make no sense."""
    return EvolutionarySearch(
        **{_OF_STRATEGY[n]: v for n, v in params.items() if n in _OF_STRATEGY}
    )


def schedule_rules(params: Mapping[str, Any], target: Target) -> list[ScheduleRule]:
    """Return the rules that derive sketches for a target."""
    numbers: dict[str, Any] = {_OF_RULES[n]: v for n, v in params.items() if n in _OF_RULES}
    left_out: list[type[ScheduleRule]] = []
    if params.get("rules") == "ansor":
        numbers["intrins"] = ()
        left_out.append(RFactorOverLanes)
    if params.get("disable_change_compute_location"):
        left_out.append(RandomComputeLocation)
    rules = ScheduleRule.create(preset_kind(target), **numbers)
    return [rule for rule in rules if not isinstance(rule, tuple(left_out))]
