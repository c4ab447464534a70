"""``pytest --quick``: a sample of the tests that start no process and are not slow, for the way between two edits."""

from __future__ import annotations

import hashlib
import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import NoReturn

import pytest

_STARTS_PROCESSES = (
    "subprocess",
    "multiprocessing",
    "nnhal_hosting.supervision",
    "nnhal_hosting.foreign_child",
    "nnhal_tools.up",
)
"""Modules that a quick test uses nothing of, neither itself nor by its fixtures and helpers."""

_MOST = 4000


def quick_items(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    quick: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        is_quick = item.get_closest_marker("slow") is None and not any(map(_starts_processes, _functions_of(item)))
        (quick if is_quick else others).append(item)
    return quick, others


def sample(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tests of every function, _MOST in all or as many as there are functions, and the others.

    Of each function with parameters there are as many cases as go, by a hash of their names: the same each time.
    """
    functions: defaultdict[tuple[object, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.parent, getattr(item, "originalname", item.name)].append(item)
    counts = [len(cases) for cases in functions.values()]
    most = 1
    while most < max(counts, default=1) and sum(min(most + 1, count) for count in counts) <= _MOST:
        most += 1
    chosen = {item for cases in functions.values() for item in sorted(cases, key=_hash)[:most]}
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def _hash(item: pytest.Item) -> bytes:
    return hashlib.blake2b(item.name.encode()).digest()


def forbid_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that starts a process after all."""

    def refuse(*arguments: object, **options: object) -> NoReturn:
        pytest.fail("a quick test starts a process: mark it slow, or start the process by a helper of tests.support")

    monkeypatch.setattr("subprocess.Popen", refuse)


def _functions_of(item: pytest.Item) -> Iterator[object]:
    assert isinstance(item, pytest.Function)
    yield item.function
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield from (definition.func for definition in definitions)


def _starts_processes(value: object) -> bool:
    """Return if a function or class of the tests uses a module that starts processes, by way of any other of them."""
    if id(value) not in _known:
        _known[id(value)] = False  # functions may call one another
        _known[id(value)] = any(_is_process(used) or _starts_processes(used) for used in _used_by(value))
    return _known[id(value)]


_known: dict[int, bool] = {}


def _is_process(value: object) -> bool:
    origin = value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
    return origin.startswith(_STARTS_PROCESSES)


def _used_by(value: object) -> Iterator[object]:
    """The globals that a function or the methods of a class name; what is not of the tests is not looked into."""
    if inspect.isclass(value) and _is_of_tests(value):
        yield from (method for method in vars(value).values() if callable(inspect.unwrap(method)))
        yield from value.__bases__
    function = inspect.unwrap(value) if callable(value) else value
    if isinstance(function, FunctionType) and _is_of_tests(function):
        yield from (function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__)


def _is_of_tests(value: object) -> bool:
    module = str(getattr(value, "__module__", ""))
    return module.startswith("tests.") or module.rpartition(".")[2].startswith(("test_", "conftest"))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
