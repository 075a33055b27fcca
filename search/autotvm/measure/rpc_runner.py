"""AutoTVM's names for measuring on other machines, over a Dask scheduler and its workers."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from search.autotvm.errors import TemplateError
from search.autotvm.measure.builder import Builder, LocalBuilder, TemplateBuilder
from search.autotvm.measure.runner import TimingRunner
from search.distributed import DaskBuilder, DaskRunner
from search.runner import EvaluatorConfig


class RPCRunner(TimingRunner):
    """Runs configurations on the machines of a Dask scheduler, many at the same time.

    `host` and `port` are the scheduler's, which takes the place of the tracker. `key` is a kind of
    machine as `tensorir worker` prints it, or a CPU model; None takes the kind for the target of
    which there are most (see `search.DaskRunner`). Machines build what they measure: templates run
    here, their programs travel as text. Of the builder beside it counts how long a build may take.

    `n_parallel` is how many are sent at once (None: as many as the machines take). The other
    options are those of `LocalRunner`; `priority` and `cooldown_interval` are accepted and unused,
    as a machine measures one candidate after the other on each of its cores. `module_loader` is
    None. Credentials and `allow_externs` are those of a `search.DaskRunner`. TuningError if no
    scheduler answers.
    """

    def __init__(
        self,
        key: str | None,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: None = None,
        *,
        end_hopeless: bool = True,
        allow_externs: Collection[str] = (),
    ) -> None:
        if module_loader is not None:
            raise TemplateError(
                "there are no module loaders: machines build what they measure, and nothing is "
                f"uploaded to them; got {module_loader!r}"
            )
        config = EvaluatorConfig(number, repeat, min_repeat_ms, enable_cpu_cache_flush)
        self._machines = DaskRunner(
            f"dask://{host}:{port}",
            timeout_sec=timeout,
            evaluator_config=config,
            machines=key,
            allow_externs=allow_externs,
        )
        super().__init__(self._machines, end_hopeless=end_hopeless)
        self._n_parallel = n_parallel

    def builder_beside(self, builder: Builder) -> Builder:
        """Return a builder that leaves building to the machines, in the time that `builder` has.

        TemplateError for one that builds by functions of its own, which cannot travel.
        """
        if not isinstance(builder, LocalBuilder) or not builder.builds_as_usual:
            raise TemplateError(
                "with an RPCRunner the machines build what they measure, and functions cannot "
                "travel there: give autotvm.LocalBuilder() without build_func and build_kwargs; "
                "options of the code are those of the target, as in llvm -mcpu=... -opt-level=..."
            )
        taken = sum(machine.at_once for machine in self._machines.machines().values())
        return TemplateBuilder(
            DaskBuilder(timeout_sec=builder.timeout), self._n_parallel or max(1, taken)
        )


def request_remote(*_: object, **__: object) -> NoReturn:
    """Raise TemplateError: there are no sessions on other machines to upload modules to."""
    raise TemplateError(
        "there is no remote session that modules are uploaded to and called in: a machine takes "
        "programs as text, builds them and measures them. To measure use "
        "runner=autotvm.RPCRunner(key, host, port); to run a module elsewhere, build it there, or "
        "export it here for its target, codegen.build(mod, target).export_library(path), and load "
        "it there with codegen.load_module(path)"
    )
