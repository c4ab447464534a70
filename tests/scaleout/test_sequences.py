"""Sequences over several hosts: what requests say of theirs, and which host remembers which."""

from __future__ import annotations

import grpc
import orjson
import pytest

from nnhal_ray.messages import REQUEST_ID, HttpCall, HttpReply, ProtocolCall, ProtocolReply
from nnhal_ray.sequences import (
    HeldSequences,
    SequenceName,
    SequenceTurn,
    in_form_of,
    loss_of,
    lost,
    turn_of,
    turn_over_http,
)

NAME = SequenceName("sum", "7")


def call(request: str = "") -> ProtocolCall:
    return ProtocolCall("ModelInfer", b"", {REQUEST_ID: request} if request else {})


@pytest.mark.parametrize(
    ("parameters", "turn"),
    [
        ({}, None),
        ({"sequence_id": 0, "sequence_start": True}, None),
        ({"sequence_id": 7}, SequenceTurn(NAME, False, False)),
        ({"sequence_id": "7", "sequence_start": True}, SequenceTurn(SequenceName("sum", '"7"'), True, False)),
        ({"sequence_id": 7, "sequence_end": True}, SequenceTurn(NAME, False, True)),
        ({"sequence_id": 7.5}, None),
    ],
)
def test_a_request_says_which_sequence_it_is_of(parameters: dict[str, object], turn: SequenceTurn | None) -> None:
    assert turn_of("sum", parameters) == turn
    assert turn_over_http("sum", orjson.dumps({"parameters": parameters, "inputs": []})) == turn


def test_long_json_says_so_too_and_malformed_json_nothing() -> None:
    inputs = [{"name": "x", "shape": [1 << 14], "datatype": "FP32", "data": [1.5] * (1 << 14)}]
    long = orjson.dumps({"inputs": inputs, "parameters": {"sequence_id": 7}})
    assert turn_over_http("sum", long) == SequenceTurn(NAME, False, False)
    for malformed in (b"sequence_id", b'["sequence_id"]', b'{"parameters": ["sequence_id"]}'):
        assert turn_over_http("sum", malformed) is None


def test_a_request_that_comes_again_is_not_run_twice() -> None:
    held = HeldSequences()
    held.begin(NAME)
    assert held.takes(NAME, call("a")) and held.takes(NAME, call("b"))
    assert not held.takes(NAME, call("b"))
    assert held.takes(NAME, call()) and held.takes(NAME, call())  # nobody has named them


def test_sequences_that_end_are_forgotten() -> None:
    held = HeldSequences()
    held.begin(NAME)
    assert NAME in held
    held.forget(NAME)
    held.forget(NAME)
    assert NAME not in held


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (ProtocolReply(b"y"), ""),
        (
            ProtocolReply(code=grpc.StatusCode.UNAVAILABLE, details="Socket closed", is_unanswered=True),
            "its host has ended",
        ),
        (ProtocolReply(code=grpc.StatusCode.UNAVAILABLE, details="sequence 7 of model 'sum' is over: …"), ""),
        (
            ProtocolReply(code=grpc.StatusCode.INVALID_ARGUMENT, details="it must specify the START flag on the first"),
            "its host has been started again",
        ),
        (ProtocolReply(code=grpc.StatusCode.INVALID_ARGUMENT, details="unexpected shape"), ""),
        (HttpReply(503, {}, b"{}", is_unanswered=True), "its host has ended"),
        (HttpReply(200, {}, b"must specify the START flag"), ""),
    ],
)
def test_what_an_answer_means_for_the_state(reply: ProtocolReply | HttpReply, words: str) -> None:
    found = loss_of(reply)
    assert words in found and bool(found) == bool(words)


def test_a_loss_names_the_sequence_in_either_protocol() -> None:
    told = lost(NAME, "its host has ended")
    assert told.details == "sequence 7 of model 'sum' is lost: its host has ended; start it again"
    over_http = in_form_of(HttpCall("POST", "/v2/models/sum/infer", "", {}, b""), told)
    assert isinstance(over_http, HttpReply) and over_http.status == 503
    assert orjson.loads(over_http.body) == {"error": told.details}
