from __future__ import annotations

import fnmatch
import glob
from random import Random

import pytest

from nnhal.codec.bounds import MAX_PINS
from nnhal.inference import model_config_pb2 as wire
from nnhal.types import ExecutionPreference
from nnhal_service.partition import Fallback, Options, Pin, Strategy
from nnhal_service.repository.parameters import (
    PlacementParameters,
    latency_goal_ns,
    pins_of,
    placement_parameters,
    text_of,
)
from nnhal_service.serving.errors import ErrorKind, ServingError


def placed(**parameters: str) -> PlacementParameters:
    config = wire.ModelConfig()
    for key, value in parameters.items():
        config.parameters[f"nnhal.{key}"].string_value = value
    return placement_parameters(config)


def test_nothing_said_is_every_device_least_time_and_caching() -> None:
    placement = placed()
    assert placement.devices == ()
    assert placement.options == Options()
    assert len(placement.cache_token) == 32


def test_a_signature_may_be_named_as_for_tritons_tensorflow() -> None:
    config = wire.ModelConfig()
    assert placement_parameters(config).signature is None
    config.parameters["TF_SIGNATURE_DEF"].string_value = "classify"
    assert placement_parameters(config).signature == "classify"


def test_every_key_is_honoured() -> None:
    placement = placed(
        devices="cpu_acc, ethos_n",
        placement="name:/backbone/*=ethos_n; op:SOFTMAX=cpu_acc\nname:a=b=cpu_acc",
        partitioner="nnapi",
        fallback="deny",
        min_nodes_per_partition="3",
        preference="low_power",
        relaxed="on",
        cache_token="ab" * 32,
        signature="serving_default",
    )
    assert placement.signature == "serving_default"
    assert placement.devices == ("cpu_acc", "ethos_n")
    assert placement.cache_token == bytes.fromhex("ab" * 32)
    assert placement.options == Options(
        Strategy.NNAPI,
        (Pin("name:/backbone/*", "ethos_n"), Pin("op:SOFTMAX", "cpu_acc"), Pin("name:a=b", "cpu_acc")),
        3,
        Fallback.DENY,
        ExecutionPreference.LOW_POWER,
        relaxed=True,
    )


def test_caching_can_be_switched_off() -> None:
    assert placed(caching="off").cache_token == b""
    assert placed(caching="on").cache_token == placed().cache_token


def test_keys_of_others_are_theirs() -> None:
    config = wire.ModelConfig()
    config.parameters["EXECUTION_ENV_PATH"].string_value = "/somewhere"
    assert placement_parameters(config) == PlacementParameters()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("device", "cpu_acc", "parameter nnhal.device is not known, expected nnhal.cache_token, nnhal.caching"),
        ("devices", " , ", "nnhal.devices names none"),
        ("devices", "npu," * 257, "nnhal.devices names 257, expected at most 256"),
        ("partitioner", "best", "nnhal.partitioner is 'best', expected one of least_time, nnapi, cpu_only"),
        ("fallback", "maybe", "nnhal.fallback is 'maybe', expected one of allow, warn, deny"),
        ("preference", "fast", "nnhal.preference is 'fast', expected one of low_power"),
        ("min_nodes_per_partition", "0", "is '0', expected a number from 1 to 2147483647"),
        ("min_nodes_per_partition", "two", "is 'two', expected a number from 1 to 2147483647"),
        ("placement", "conv=npu", "has 'conv=npu', expected MATCH=DEVICE with ';' between; MATCH is name:GLOB"),
        ("placement", "op:CONV_2D", "has 'op:CONV_2D', expected"),
        ("caching", "perhaps", "nnhal.caching is 'perhaps', expected one of on, true, off, false"),
        ("cache_token", "abc", "nnhal.cache_token is 'abc', expected 64 hexadecimal digits"),
    ],
)
def test_a_value_of_no_use_is_an_error_that_says_what_is_expected(key: str, value: str, message: str) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        placed(**{key: value})
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("text", "goal_ns"), [("20 ms", 20_000_000), ("1.5s", 1_500_000_000), ("800us", 800_000), ("", 0)]
)
def test_a_goal_is_a_time(text: str, goal_ns: int) -> None:
    config = wire.ModelConfig()
    config.parameters["nnhal.slo"].string_value = text
    assert latency_goal_ns(config) == goal_ns


@pytest.mark.parametrize("text", ["20", "0 ms", "-1 ms", "soon", "20 ms 5"])
def test_a_goal_that_is_no_time_is_an_error_that_says_what_is_expected(text: str) -> None:
    config = wire.ModelConfig()
    config.parameters["nnhal.slo"].string_value = text
    with pytest.raises(ServingError, match=f"nnhal.slo is '{text}', expected a time such as '20 ms'"):
        latency_goal_ns(config)


NASTY = [
    "a;b",
    "a=b;op:ADD=npu",
    "two\nlines",
    " around ",
    "tab\t",
    "[x]",
    "*",
    "what?",
    "back\\slash",
    "ends\\",
    "é😀",
]


def test_pins_stand_between_semicolons_or_line_ends() -> None:
    text = "name:/backbone/*=ethos_n; op:SOFTMAX = cpu_acc\nindex:3-7=npu;;"
    assert pins_of(text) == (
        Pin("name:/backbone/*", "ethos_n"),
        Pin("op:SOFTMAX", "cpu_acc"),
        Pin("index:3-7", "npu"),
    )


@pytest.mark.parametrize("name", NASTY)
def test_a_node_of_any_name_can_be_pinned_by_a_text(name: str) -> None:
    (pin,) = pins_of(text_of([Pin(f"name:{glob.escape(name)}", "npu")]))
    assert pin.device == "npu"
    assert fnmatch.fnmatchcase(name, pin.match.removeprefix("name:"))


def test_pins_are_read_as_they_are_written() -> None:
    random = Random(3)
    for _ in range(200):
        matches = ["name:x" + "".join(random.choices("ab;=\n*?[]\\: ", k=random.randint(0, 8))) + "z" for _ in range(3)]
        pins = tuple(Pin(match, random.choice(("npu", "cpu_ref"))) for match in matches)
        assert pins_of(text_of(pins)) == pins


@pytest.mark.parametrize("text", ["conv=npu", "op:CONV_2D", "name:=npu", "node:x=npu", "index:3="])
def test_a_text_that_is_no_pin_is_an_error(text: str) -> None:
    with pytest.raises(ServingError, match="expected MATCH=DEVICE"):
        pins_of(f"op:ADD=npu; {text}")


def test_pins_are_bounded() -> None:
    assert len(pins_of(";".join(["op:ADD=npu"] * MAX_PINS))) == MAX_PINS
    with pytest.raises(ServingError, match=f"nnhal.placement has {MAX_PINS + 1} pins, expected at most {MAX_PINS}"):
        pins_of(";".join(["op:ADD=npu"] * (MAX_PINS + 1)))
