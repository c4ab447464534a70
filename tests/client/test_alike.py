"""The blocking client and that for asyncio, natively and with bytes, have the same methods with the same options."""

from __future__ import annotations

import inspect

import pytest

import nnhal_client
from nnhal_client import aio

PAIRS = [
    (nnhal_client.Framework, aio.AsyncFramework),
    (nnhal_client.Model, aio.AsyncModel),
    (nnhal_client.Binding, aio.AsyncBinding),
    (nnhal_client.DomainMemory, aio.AsyncDomainMemory),
    (nnhal_client.V2Server, aio.AsyncV2Server),
    (nnhal_client.V2Model, aio.AsyncV2Model),
    (nnhal_client.V2Binding, aio.AsyncV2Binding),
]
OF_DRIVERS = {"run_alone", "close_bindings"}
"""What the parts of the client for asyncio have for one another."""


def options(kind: type, name: str) -> list[tuple[str, object]]:
    """The parameters of a method with their defaults."""
    return [
        (parameter.name, parameter.default) for parameter in inspect.signature(getattr(kind, name)).parameters.values()
    ]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - OF_DRIVERS


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_have_the_same_methods_with_the_same_options(blocking: type, asynchronous: type) -> None:
    assert public(blocking) == public(asynchronous)
    for name in public(blocking):
        if inspect.isfunction(getattr(blocking, name)):
            assert options(blocking, name) == options(asynchronous, name), name


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_are_contexts(blocking: type, asynchronous: type) -> None:
    assert hasattr(blocking, "__enter__") and hasattr(blocking, "__exit__")
    assert hasattr(asynchronous, "__aenter__") and hasattr(asynchronous, "__aexit__")


@pytest.mark.parametrize(
    ("native", "bytes_"),
    [
        (nnhal_client.Binding, nnhal_client.V2Binding),
        (nnhal_client.Model, nnhal_client.V2Model),
        (aio.AsyncBinding, aio.AsyncV2Binding),
        (aio.AsyncModel, aio.AsyncV2Model),
    ],
)
def test_what_both_transports_have_takes_the_same_options(native: type, bytes_: type) -> None:
    shared = public(native) & public(bytes_)
    assert {"close"} < shared
    for name in shared:
        if inspect.isfunction(getattr(native, name)):
            assert options(native, name) == options(bytes_, name), name


def test_both_connect_with_the_same_options() -> None:
    blocking, asynchronous = (inspect.signature(module.connect).parameters for module in (nnhal_client, aio))
    assert [(p.name, p.default) for p in blocking.values()] == [(p.name, p.default) for p in asynchronous.values()]
