"""The registry of Python functions that programs call by name."""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Iterator

import numpy as np
import pytest

import codegen
from codegen.library_functions import call_library
from tensorir.errors import IRTypeError, IRValueError


@pytest.fixture(autouse=True)
def own_names() -> Iterator[None]:
    """Take back what a test registers."""
    before = set(codegen.list_global_func_names())
    yield
    for name in set(codegen.list_global_func_names()) - before:
        codegen.remove_global_func(name)


def double(x: np.ndarray, out: np.ndarray) -> None:  # type: ignore[type-arg]
    np.multiply(x, 2, out=out)


def test_three_ways_to_register() -> None:
    @codegen.register_func("test.named")
    def one() -> int:
        return 1

    @codegen.register_func
    def test_own_name() -> int:
        return 2

    assert codegen.register_func("test.called", double) is double
    assert codegen.get_global_func("test.named") is one
    assert codegen.get_global_func("test_own_name") is test_own_name
    assert codegen.get_global_func("test.called") is double
    assert {"test.named", "test.called"} < set(codegen.list_global_func_names())


def test_a_taken_name_needs_override() -> None:
    codegen.register_func("test.taken", double)
    message = r"'test.taken' exists already: double at .*test_library_functions.py:\d+; .*override"
    with pytest.raises(IRValueError, match=message):
        codegen.register_func("test.taken", print)
    assert codegen.get_global_func("test.taken") is double

    @codegen.register_func("test.taken", override=True)
    def other() -> None: ...

    assert codegen.get_global_func("test.taken") is other


@pytest.mark.parametrize(
    ("function", "place"),
    [(len, "<built-in function len>"), (functools.partial(double, 1), "double at .*:")],
)
def test_the_place_of_what_is_no_plain_function(function: object, place: str) -> None:
    codegen.register_func("test.odd", function)  # type: ignore[type-var]
    with pytest.raises(IRValueError, match=f"exists already: {place}"):
        codegen.register_func("test.odd", double)


def test_only_functions_are_registered() -> None:
    with pytest.raises(IRTypeError, match=r"'test\.number' is a int, not"):
        codegen.register_func("test.number", 3)  # type: ignore[type-var]
    with pytest.raises(IRTypeError, match="takes a name or a function, got 3"):
        codegen.register_func(3)  # type: ignore[type-var]
    with pytest.raises(IRTypeError, match=r"partial.* has no __name__; pass a name"):
        codegen.register_func(functools.partial(double, 1))
    with pytest.raises(IRValueError, match="needs a name"):
        codegen.register_func("", double)


def test_missing_names_come_with_names_near_them() -> None:
    codegen.register_func("test.softmax", double)
    with pytest.raises(IRValueError, match=r"not registered: 'test.sofmax' \(near it: test.softm"):
        codegen.get_global_func("test.sofmax")
    with pytest.raises(IRValueError, match=r"not registered: 'nothing like it'; register with"):
        codegen.remove_global_func("nothing like it")
    assert codegen.get_global_func("test.sofmax", allow_missing=True) is None


def test_removed_functions_are_gone() -> None:
    codegen.register_func("test.short", double)
    codegen.remove_global_func("test.short")
    assert codegen.get_global_func("test.short", allow_missing=True) is None
    codegen.register_func("test.short", double)


def test_one_thread_of_many_gets_a_name() -> None:
    won: list[int] = []

    def attempt(number: int) -> None:
        try:
            codegen.register_func("test.race", lambda: number)
        except IRValueError:
            return
        won.append(number)

    threads = [threading.Thread(target=attempt, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [codegen.get_global_func("test.race")()]


def test_calls_give_the_value_of_the_function() -> None:
    out = codegen.empty((3,))
    assert call_library("test.double", double, (np.ones(3, np.float32), out)) is None
    assert out.tolist() == [2, 2, 2]
    assert call_library("test.len", len, ("four",)) == 4


def test_errors_name_function_arguments_and_binding() -> None:
    def broken(x: object, *rest: object) -> None:
        raise KeyError("inside")

    args = (codegen.empty((1, 784)), 3, ("a", codegen.empty((2,), "int8")), "b" * 60)
    with pytest.raises(codegen.LibraryFunctionError) as caught:
        call_library("env.linear", broken, args, binding="lv0")
    assert str(caught.value) == (
        "library function 'env.linear'(float32[1, 784], 3, ('a', int8[2]), "
        f"'{'b' * 36}...), called for lv0, raised KeyError: 'inside'"
    )
    assert isinstance(caught.value.__cause__, KeyError)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'raise KeyError("inside")' in shown


def test_interrupts_pass_through() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_library("test.interrupted", interrupted, ())
