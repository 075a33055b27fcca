"""The common parts of the peers: requests and answers, inputs, and measurements.

A peer is a process of a benchmark. It reads requests and writes answers, one JSON object a line:
first `{"name": ...}`, then for `{"do": action, ...}` the result of the action, or
`{"error": sentence}`. All other output of a library goes to standard error.

The peers of this folder have two actions. `prepare` tunes a program or loads a model, and returns
its forms and the digest of its output; `run` returns the seconds of a call of a form.

The files of this folder run in interpreters that have NumPy and the peer, but not this project.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def serve(name: str, actions: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    say({"name": name})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say(actions[request.pop("do")](**request))
        except Exception as error:  # noqa: BLE001 - a failure is an answer
            traceback.print_exc()
            text = str(error).strip() or "no message"
            say({"error": f"{type(error).__name__}: {text.splitlines()[0][:300]}"})


Timer = Callable[[float], float]
"""Returns the seconds of a call, the mean of as many as run in the given seconds."""


def serve_timers(
    name: str, prepare: Callable[..., tuple[dict[str, Any], Mapping[str, Timer]]]
) -> None:
    """Serve a peer whose `prepare` returns its answer, and a timer for each form."""
    timers: dict[str, Timer] = {}

    def prepared(**request: Any) -> dict[str, Any]:
        timers.clear()
        answer, found = prepare(**request)
        timers.update(found)
        return {"seconds": 0.0, "trial_seconds": [], "forms": list(timers), **answer}

    def run(form: str, least: float) -> dict[str, Any]:
        return {"seconds": timers[form](least)}

    serve(name, {"prepare": prepared, "run": run})


def inputs(shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Return float32 arrays in [-1, 1), the same in every peer."""
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def digest(output: np.ndarray) -> float:
    """Return one number to tell whether two peers compute the same."""
    return float(np.abs(output.astype(np.float64)).sum())


def seconds_of(call: Callable[[], object], least: float) -> float:
    """Return the seconds of a call, the mean of as many as take `least` seconds."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        elapsed = time.perf_counter() - start
        if elapsed >= least:
            return elapsed / count
        count = max(2 * count, int(count * least / max(elapsed, 1e-9)))


def trial_seconds(work_dir: str | Path, trials: int) -> list[float]:
    """Return the mean time of each trial in the order of measurement, from the database's file."""
    path = Path(work_dir) / "database_tuning_record.json"
    times = (json.loads(line)[1][1] for line in path.read_text().splitlines() if line.strip())
    return [float(np.mean(seconds)) for seconds in times if seconds][:trials]
