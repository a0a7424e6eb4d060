"""Every method that does I/O has a twin with an `a` in front: same parameters, same promises, on the same class."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions import InMemoryStore, Invocation, SessionService, SqlStore
from langchain_sessions.stores._base import SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable

# What does no I/O, or is itself a workflow of both faces, and so has one face.
ONE_FACE: dict[type, set[str]] = {
    SessionService: {"as_user", "invocation"},
    Invocation: set(),
    SessionStore: set(),
    InMemoryStore: set(),
    SqlStore: set(),
}
CLASSES = list(ONE_FACE)


def _methods(cls: type) -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(cls, inspect.isfunction)
    return {name: method for name, method in found if not name.startswith("_")}


def _parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(method).parameters.values())[1:]


def _pairs(cls: type) -> list[str]:
    methods = _methods(cls)
    return [name for name in methods if f"a{name}" in methods]


CASES = [(cls, name) for cls in CLASSES for name in _pairs(cls)]


@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_has_one_face_by_mistake(cls: type) -> None:
    methods, pairs = _methods(cls), _pairs(cls)
    alone = set(methods) - set(pairs) - {f"a{name}" for name in pairs}
    assert {name for name in alone if not _has_property_of_base(cls, name)} <= ONE_FACE[cls]
    assert len(pairs) >= 2


def _has_property_of_base(cls: type, name: str) -> bool:
    """Helpers of an implementation that are no part of the contract, such as `SqlStore.run`."""
    return cls not in (SessionService, Invocation, SessionStore) and not hasattr(SessionStore, name)


@pytest.mark.parametrize(("cls", "name"), CASES, ids=[f"{cls.__name__}.{name}" for cls, name in CASES])
def test_twins_agree(cls: type, name: str) -> None:
    methods = _methods(cls)
    one, two = methods[name], methods[f"a{name}"]
    assert inspect.iscoroutinefunction(two)
    assert not inspect.iscoroutinefunction(one)
    assert _parameters(one) == _parameters(two)
    assert (one.__name__, two.__name__) == (name, f"a{name}")


@pytest.mark.parametrize("cls", [SessionService, Invocation, SessionStore])
def test_every_public_method_is_documented(cls: type) -> None:
    for name, method in _methods(cls).items():
        assert (method.__doc__ or "").strip(), name
    for name in _pairs(cls):
        assert _methods(cls)[f"a{name}"].__doc__ == _methods(cls)[name].__doc__, name


@pytest.mark.parametrize("cls", [SessionService, Invocation])
def test_it_is_a_context_manager_both_ways(cls: type) -> None:
    assert {"__enter__", "__exit__", "__aenter__", "__aexit__"} <= set(dir(cls))
