"""The reducer of a block that a primitive is given, and the errors if there is none."""

from __future__ import annotations

from schedule.errors import Problem, fail
from schedule.sref import StmtSRef
from tensorir.reducers import NoReducer, NotAReduction, Reduction, reduction_of

FORM = Problem(
    "RFactorNotApplicableError",
    "{0} is not a reduction that can be factored: {reason}",
    "the init must store the identity, and the body must store the combination of the current "
    "element and a value",
)
NO_REDUCER = Problem(
    "NoMatchedReducerError",
    "no known reducer has the identity and the combiner of {0}",
    "register one with tensorir.reducers.register_reducer",
)


def find_reduction(block: StmtSRef) -> Reduction:
    """Return the update of a reduction block; ScheduleError if its form or reducer is unknown."""
    try:
        return reduction_of(block.block)
    except NotAReduction as error:
        reason = str(error)
    except NoReducer:
        fail(NO_REDUCER, block)
    fail(FORM, block, reason=reason)
