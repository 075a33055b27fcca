"""The decisions at the sites of a trace, as the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schedule.decisions.domain import DecisionDomain
from search.spaces.decision_site import Site


def decision_columns(sites: Sequence[Site], decisions: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each column.

    A decision of several numbers has a column for each, `name[0]` the first. Sites of the same name
    are numbered; where there are no sites, as their program is not known, decisions are `site 0`
    and so on. A value is what the decision stands for, where its site knows that.
    """
    names = list(_unique([site.name for site in sites]))
    for k, decision in enumerate(decisions):
        name = names[k] if names else f"site {k}"
        if isinstance(decision, (list, tuple)) and len(decision) != 1:
            yield from ((f"{name}[{j}]", number) for j, number in enumerate(decision))
            continue
        number = decision[0] if isinstance(decision, (list, tuple)) else decision
        domain = sites[k].domain if names else None
        yield name, number if domain is None or number is None else _labelled(domain, number)


def _unique(names: Sequence[str]) -> Iterator[str]:
    """Yield names, numbered where several are the same."""
    for k, name in enumerate(names):
        yield name if names.count(name) == 1 else f"{name} ({names[:k].count(name) + 1})"


def _labelled(domain: DecisionDomain, decision: Any) -> Any:
    """Return the alternative that a decision stands for: a number where that is one."""
    text = domain.label(decision)
    return int(text) if text.removeprefix("-").isdigit() else text
