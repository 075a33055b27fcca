"""The cost models of the search by the names and parameters that Ansor has for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from search import cost_model
from search.auto_scheduler.log.database import to_database
from search.context import TuneContext
from search.cost_model import XGBConfig
from search.database.best_records import those_that_count
from search.task_scheduler.learn_from_records import learn

if TYPE_CHECKING:
    from codegen import Target
    from search.database import TuningRecord, Workload


class XGBModel(cost_model.XGBModel):
    """Ranks candidates by trees that learned from measurements; see `search.cost_model.XGBModel`.

    Until `num_warmup_sample` measurements scores are estimates from the loops of a program, where
    Ansor's are random up to 100. With `adaptive_training` it is trained again only once there is a
    fifth more data. Every `verbose_eval` rounds of training are logged. `model_file` is a file that
    `save` wrote.
    """

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 12,
        seed: int | None = None,
        model_file: str | os.PathLike[str] | None = None,
        adaptive_training: bool = False,
    ) -> None:
        super().__init__(
            config=XGBConfig() if seed is None else XGBConfig(seed=seed),
            verbose_eval=verbose_eval,
            num_warmup_samples=num_warmup_sample,
            adaptive_training=adaptive_training,
        )
        if model_file is not None:
            self.load(model_file)

    def update_from_file(
        self, file_name: str | os.PathLike[str], n_lines: int | None = None
    ) -> int:
        """Learn from the first `n_lines` records of a log (None: all); return from how many.

        Those that the model knows are left out, and so are those that cannot be replayed.
        """
        groups: dict[tuple[Workload, Target | None], list[TuningRecord]] = {}
        for record in to_database(file_name, n_lines=n_lines).get_all_tuning_records():
            groups.setdefault((record.workload, record.target), []).append(record)
        return sum(
            learn(self, TuneContext(workload.mod, target=target), those_that_count(records))
            for (workload, target), records in groups.items()
        )
