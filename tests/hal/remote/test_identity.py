"""Descriptions of a device that a client accepts."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from nnhal.codec import capabilities_to_wire
from nnhal.errors import TransportError
from nnhal.remote import DeviceIdentity
from nnhal.types import (
    Capabilities,
    DeviceType,
    Extension,
    ExtensionOperandType,
    NumberOfCacheFiles,
    OperandPerformance,
    OperandType,
    PerformanceInfo,
)
from nnhal.v1 import device_pb2, types_pb2
from tests.support.refusals import FAILURE, refusal
from tests.support.scripted import CAPABILITIES, CPU, VERSION, Serve

FLT_MAX = 3.4028234663852886e38


def version(text: str) -> dict[str, Any]:
    return {"Device.GetVersionString": device_pb2.GetVersionStringResponse(version=text)}


def kind(code: int) -> dict[str, Any]:
    return {"Device.GetType": device_pb2.GetTypeResponse(type=types_pb2.DeviceType.ValueType(code))}


def capabilities(change: Callable[[types_pb2.Capabilities], object]) -> dict[str, Any]:
    message = capabilities_to_wire(CAPABILITIES)
    change(message)
    return {"Device.GetCapabilities": device_pb2.GetCapabilitiesResponse(capabilities=message)}


def table(*codes: int) -> dict[str, Any]:
    """Describe a device with figures for operand types."""
    figures = types_pb2.PerformanceInfo(exec_time=1, power_usage=1)
    entries = [types_pb2.OperandPerformance(type=types_pb2.OperandType.ValueType(code), info=figures) for code in codes]

    def change(message: types_pb2.Capabilities) -> None:
        del message.operand_performance[:]
        message.operand_performance.extend(entries)

    return capabilities(change)


def extensions(*entries: tuple[str, list[tuple[int, int]]]) -> dict[str, Any]:
    """Describe a device with extensions: names, and (type, bytes) of their operand types."""
    messages = [
        types_pb2.Extension(
            name=name,
            operand_types=[types_pb2.ExtensionOperandTypeInformation(type=t, byte_size=size) for t, size in types],
        )
        for name, types in entries
    ]
    return {"Device.GetSupportedExtensions": device_pb2.GetSupportedExtensionsResponse(extensions=messages)}


def cache_files(model: int, data: int) -> dict[str, Any]:
    """Describe a device that needs given numbers of cache files."""
    counts = types_pb2.NumberOfCacheFiles(num_model_cache=model, num_data_cache=data)
    return {
        "Device.GetNumberOfCacheFilesNeeded": device_pb2.GetNumberOfCacheFilesNeededResponse(
            number_of_cache_files=counts
        )
    }


def test_the_identity_of_a_device_is_read_at_once(scripted: Serve) -> None:
    device, _ = scripted({**extensions(("a.b", [(0, 4), (65535, 1)]), ("a.c", [])), **cache_files(32, 1)})
    assert device.identity() == DeviceIdentity(
        VERSION,
        DeviceType.ACCELERATOR,
        CAPABILITIES,
        (
            Extension("a.b", (ExtensionOperandType(0, False, 4), ExtensionOperandType(65535, False, 1))),
            Extension("a.c"),
        ),
        NumberOfCacheFiles(32, 1),
    )


FIGURES: dict[str, Callable[[types_pb2.Capabilities], types_pb2.PerformanceInfo]] = {
    "relaxed scalars": lambda message: message.relaxed_float32_to_float16_performance_scalar,
    "relaxed tensors": lambda message: message.relaxed_float32_to_float16_performance_tensor,
    "IF": lambda message: message.if_performance,
    "WHILE": lambda message: message.while_performance,
    "TENSOR_FLOAT32": lambda message: message.operand_performance[0].info,
}


@pytest.mark.contract("DV-02", "DV-11", "RS-04")
@pytest.mark.parametrize("number", [0.0, -1.0, nan, -inf, inf])
@pytest.mark.parametrize("what", FIGURES)
def test_a_performance_figure_that_is_not_above_zero_is_refused(scripted: Serve, what: str, number: float) -> None:
    def slow(message: types_pb2.Capabilities) -> None:
        FIGURES[what](message).exec_time = number

    device, _ = scripted(capabilities(slow))
    refusal(device.identity, FAILURE, f"execution time {number} and power usage 1.0 for {what}, expected both above 0")


@pytest.mark.contract("DV-02", "DV-11")
def test_a_power_usage_that_is_not_above_zero_is_refused(scripted: Serve) -> None:
    def frugal(message: types_pb2.Capabilities) -> None:
        message.if_performance.power_usage = 0

    device, _ = scripted(capabilities(frugal))
    refusal(device.identity, FAILURE, "power usage 0.0 for IF")


@pytest.mark.contract("DV-11")
def test_capabilities_that_are_not_there_are_refused(scripted: Serve) -> None:
    device, _ = scripted({"Device.GetCapabilities": device_pb2.GetCapabilitiesResponse()})
    refusal(device.identity, FAILURE, "execution time 0.0")


REFUSED = {
    "no version": (version(""), "an empty version"),
    "type 0": (kind(0), "device type 0, expected one of \\[1, 2, 3, 4\\]"),
    "type 5": (kind(5), "device type 5"),
    "type -1": (kind(-1), "device type -1"),
    "a type twice": (table(3, 3), "TENSOR_FLOAT32, TENSOR_FLOAT32, expected operand types in ascending order"),
    "types descending": (table(3, 0), "TENSOR_FLOAT32, FLOAT32, expected operand types in ascending order"),
    "subgraph": (table(3, 15), "TENSOR_FLOAT32, SUBGRAPH, expected .* without SUBGRAPH"),
    "a type that is none": (table(16), "an operand type that does not exist: 16 is not a valid OperandType"),
    "an extension of a base code": (table(0x10000), "65536 is not a valid OperandType"),
    "a name without a dot": (extensions(("onnx", [])), "extension 'onnx', expected lower-case letters"),
    "a name with a hyphen": (extensions(("a.b-c", [])), "extension 'a.b-c'"),
    "a name in capitals": (extensions(("A.b", [])), "extension 'A.b'"),
    "no name": (extensions(("", [])), "extension ''"),
    "an end of line in a name": (extensions(("a.b\n", [])), "extension 'a.b"),
    "a name twice": (extensions(("a.b", []), ("a.b", [])), "extensions that are not unique: a.b, a.b"),
    "an operand type twice": (extensions(("a.b", [(1, 4), (1, 8)])), "operand types in extension 'a.b' .* 1, 1"),
    "an operand type of no size": (extensions(("a.b", [(1, 0)])), "operand type 1 of 0 bytes in extension 'a.b'"),
    "an operand type of negative size": (extensions(("a.b", [(1, -4)])), "operand type 1 of -4 bytes"),
    "an operand type of 17 bits": (extensions(("a.b", [(65536, 4)])), "operand type 65536"),
    "a negative operand type": (extensions(("a.b", [(-1, 4)])), "operand type -1"),
    "33 model cache files": (cache_files(33, 0), "33 model cache files, expected 0 to 32"),
    "-1 model cache files": (cache_files(-1, 0), "-1 model cache files"),
    "33 data cache files": (cache_files(0, 33), "33 data cache files, expected 0 to 32"),
    "-1 data cache files": (cache_files(32, -1), "-1 data cache files"),
}


@pytest.mark.contract("DV-03", "DV-04", "DV-05", "DV-06", "DV-07", "DV-10", "DV-11", "RS-04")
@pytest.mark.parametrize("case", REFUSED)
def test_a_device_with_an_invalid_description_is_refused(scripted: Serve, case: str) -> None:
    script, words = REFUSED[case]
    device, _ = scripted(script)
    refusal(device.identity, FAILURE, words)


@pytest.mark.contract("DV-06", "DV-07", "DV-10")
@pytest.mark.parametrize(
    "script",
    [cache_files(0, 0), cache_files(32, 32), extensions(), table(), table(*range(15)), extensions(("a.b", [(0, 1)]))],
    ids=["no cache", "most cache files", "no extensions", "no table", "whole table", "an extension"],
)
def test_a_device_within_the_rules_is_accepted(scripted: Serve, script: dict[str, Any]) -> None:
    device, _ = scripted(script)
    device.identity()


def test_a_text_that_is_none_is_a_failure_and_no_crash(scripted: Serve) -> None:
    device, _ = scripted({"Device.GetVersionString": b"\x0a\x02\xff\xfe"})
    with pytest.raises(TransportError):
        device.identity()


@pytest.mark.contract("DV-13")
def test_a_type_of_which_nothing_is_said_has_the_largest_figures() -> None:
    fast = PerformanceInfo(0.5, 0.25)
    said = Capabilities(CPU, CPU, (OperandPerformance(OperandType.TENSOR_FLOAT32, fast),), CPU, CPU)
    assert said.performance_of(OperandType.TENSOR_FLOAT32) == fast
    for code in (OperandType.FLOAT32, OperandType.TENSOR_INT32, 0x10000):
        assert said.performance_of(code) == PerformanceInfo(FLT_MAX, FLT_MAX)


def test_identities_say_in_what_they_differ(scripted: Serve) -> None:
    device, _ = scripted()
    one = device.identity()
    other = DeviceIdentity("scripted-2", one.type, one.capabilities, one.extensions, NumberOfCacheFiles(1, 0))
    assert one.differences(one) == []
    assert one.differences(other) == ["version", "cache_files"]
