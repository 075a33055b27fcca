"""Syntax trees that several threads make."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

from tensorir.syntax_trees import syntax_tree


def test_threads_make_trees_at_the_same_time() -> None:
    """A collection of garbage lets another thread run in the middle of a tree."""
    text = "\n".join(
        f"def f{k}(x):\n    return (x + {k}) * [x, (x, {{x: -x}})][0]" for k in range(60)
    )

    def let_others_run(*_: object) -> None:
        time.sleep(0)

    usual = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(100)
    try:
        with ThreadPoolExecutor(4) as threads:
            trees = list(threads.map(lambda _: syntax_tree(text), range(40)))
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(let_others_run)
    assert [len(tree.body) for tree in trees] == [60] * 40
