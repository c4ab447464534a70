"""Getters of a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnhal.errors import HalError
from nnhal.remote.backend import description_from_wire
from nnhal.remote.identity import (
    checked_cache_files,
    checked_capabilities,
    checked_extensions,
    checked_type,
    checked_version,
)
from nnhal.v1 import backend_pb2, device_pb2
from nnhal_conformance.device import Subject
from nnhal_conformance.rule import BrokenRuleError, NotOfferedError, offered, require, rule
from nnhal_conformance.session import DeviceSession

GROUP = "getters"
_PLACE = "the device"


def _asked(session: DeviceSession) -> dict[str, Any]:
    """Call all getters."""
    stub = session.device
    return {
        "GetVersionString": session.call(stub.GetVersionString, device_pb2.GetVersionStringRequest()),
        "GetType": session.call(stub.GetType, device_pb2.GetTypeRequest()),
        "GetCapabilities": session.call(stub.GetCapabilities, device_pb2.GetCapabilitiesRequest()),
        "GetSupportedExtensions": session.call(stub.GetSupportedExtensions, device_pb2.GetSupportedExtensionsRequest()),
        "GetNumberOfCacheFilesNeeded": session.call(
            stub.GetNumberOfCacheFilesNeeded, device_pb2.GetNumberOfCacheFilesNeededRequest()
        ),
    }


def _valid(checked: Callable[[], object]) -> None:
    try:
        checked()
    except HalError as error:
        raise BrokenRuleError(error.message) from error


@rule(GROUP, "reference/contract.md#the-rows", "DV-04")
def version(device: Subject) -> None:
    """GetVersionString gives a string that is not empty."""
    _valid(lambda: checked_version(_asked(device.session())["GetVersionString"].version, _PLACE))


@rule(GROUP, "reference/contract.md#the-rows", "DV-05")
def type_(device: Subject) -> None:
    """GetType gives OTHER, CPU, GPU or ACCELERATOR."""
    _valid(lambda: checked_type(_asked(device.session())["GetType"].type, _PLACE))


@rule(GROUP, "reference/contract.md#the-rows", "DV-02", "DV-03", "BA-02")
def capabilities(device: Subject) -> None:
    """GetCapabilities gives figures above 0, by rising operand type, each once, never for SUBGRAPH."""
    _valid(lambda: checked_capabilities(_asked(device.session())["GetCapabilities"].capabilities, _PLACE))


@rule(GROUP, "reference/contract.md#the-rows", "DV-06")
def extensions(device: Subject) -> None:
    """GetSupportedExtensions gives valid names, none twice, and valid types."""
    _valid(lambda: checked_extensions(_asked(device.session())["GetSupportedExtensions"].extensions, _PLACE))


@rule(GROUP, "reference/contract.md#the-rows", "DV-07", "DV-10")
def cache_files(device: Subject) -> None:
    """GetNumberOfCacheFilesNeeded gives 0 to 32 of each kind."""
    answer = _asked(device.session())["GetNumberOfCacheFilesNeeded"]
    _valid(lambda: checked_cache_files(answer.number_of_cache_files, _PLACE))


@rule(GROUP, "reference/contract.md#the-rows", "DV-12")
def same_answers(device: Subject) -> None:
    """A getter gives the same answer each time, in every session."""
    first, second = _asked(device.session()), _asked(device.session())
    for name, answer in first.items():
        require(answer == second[name], f"another answer of {name}", "the same as before")


@rule(GROUP, "client.md#memory-of-devices")
def describe(device: Subject) -> None:
    """Describe names the device and gives valid memory rules and costs."""
    described = device.description
    if described is None:
        raise NotOfferedError(
            "no Describe: memory counts as usable in place from multiples of 64 bytes, and a launch as free"
        )
    _valid(lambda: description_from_wire(described, _PLACE))
    require(bool(described.name), "an empty name", "the device's name")
    require(described.workers >= 1, f"{described.workers} workers", "1 or more")


@rule(GROUP, "operate.md")
def usage(device: Subject) -> None:
    """GetUsage counts sessions and prepared models, and counts them no more when their session has ended."""
    session = device.session()

    def counted() -> backend_pb2.GetUsageResponse:
        return session.call(session.backend.GetUsage, backend_pb2.GetUsageRequest())

    offered(counted, "metrics and the dashboard lack what the device holds")
    held = device.prepare()
    within = counted()
    require(
        within.sessions >= 2 and within.prepared_models >= 1,
        f"{within.sessions} sessions, {within.prepared_models} prepared models",
        "2 or more and 1 or more: those of this check",
    )
    held.session.close()
    device.until(
        lambda: counted().sessions < within.sessions and counted().prepared_models < within.prepared_models,
        lambda: (
            f"got {counted().sessions} sessions and {counted().prepared_models} prepared models after the end of a "
            f"session, expected fewer than the {within.sessions} and {within.prepared_models} before"
        ),
    )
