"""Models: what is supported, what is refused, and how preparations end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.types import (
    ErrorStatus,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal.v1 import backend_pb2, device_pb2, types_pb2
from nnhal_conformance.device import Prepared, Subject, supported
from nnhal_conformance.rule import (
    INVALID,
    MISSED,
    NotOfferedError,
    offered,
    refused,
    require,
    rule,
)
from nnhal_conformance.small_models import SHAPE, SmallModel, small_models
from nnhal_conformance.ways import PREPARATIONS, Prepare, by_config

GROUP = "models"
_VALID, _PREPARING = "reference/contract.md#valid-models", "reference/protocol.md#errors"
LATEST_NS = 2**63 - 1


def circle() -> Model:
    """Two additions that each read the other's sum, and a third that reads one of them."""
    code = OperandType.TENSOR_FLOAT32
    given = Operand(code, SHAPE, lifetime=OperandLifeTime.SUBGRAPH_INPUT)
    written = Operand(code, SHAPE, lifetime=OperandLifeTime.TEMPORARY_VARIABLE)
    none = Operand(OperandType.INT32, lifetime=OperandLifeTime.SUBGRAPH_INPUT)
    operands = (given, given, none, written, written, replace(written, lifetime=OperandLifeTime.SUBGRAPH_OUTPUT))
    terms = (((0, 4), 3), ((1, 3), 4), ((4, 0), 5))
    operations = tuple(Operation(OperationType.ADD, (*pair, 2), (total,)) for pair, total in terms)
    return Model(Subgraph(operands, operations, (0, 1, 2), (5,)))


def _graph(model: Model, **fields: Any) -> Model:
    return replace(model, main=replace(model.main, **fields))


def invalid_models(small: SmallModel) -> dict[str, Model]:
    """Models that contradict themselves, each by one thing."""
    model = small.model
    main = model.main
    (operation,) = main.operations
    last, output = len(main.operands), main.output_indexes[0]
    scalar = next((n for n, each in enumerate(main.operands) if each.type == OperandType.INT32), None)

    def of(**fields: Any) -> Model:
        return _graph(model, operations=(replace(operation, **fields),))

    found = {
        "an operation that reads an operand beyond the last": of(inputs=(*operation.inputs[:-1], last)),
        "an operation that writes an operand beyond the last": of(outputs=(last,)),
        "an operation of code 106": of(type=106),
        "an operation of code -1": of(type=-1),
        "an operand of type 16": small.with_operand(output, type=16),
        "a negative dimension": small.with_operand(output, dimensions=(-1, SHAPE[1])),
        "a negative scale": small.with_operand(output, scale=-1.0),
        "an output of other dimensions than the operation makes": small.with_operand(output, dimensions=(1, SHAPE[1])),
        "no operations": _graph(model, operations=()),
        "no operands": Model(Subgraph((), (), (), ())),
        "an input that is listed twice": _graph(model, input_indexes=(*main.input_indexes, main.input_indexes[0])),
        "an output that is not listed": _graph(model, output_indexes=()),
        "an output that two operations write": _graph(model, operations=(operation, operation)),
        "an output that is no output": _graph(model, output_indexes=(main.input_indexes[0],)),
        "operations that read one another": circle(),
    }
    if scalar is not None:
        location = main.operands[scalar].location
        found["a constant beyond the values"] = small.with_operand(scalar, location=replace(location, offset=1 << 20))
        found["a scalar with dimensions"] = small.with_operand(scalar, dimensions=(1,))
    return found


@rule(GROUP, _VALID, "PM-16")
def support(device: Subject) -> None:
    """GetSupportedOperations of a valid model answers once for each operation, and the same each time."""
    session = device.session()
    for small in small_models():
        first, second = supported(session, small.model), supported(session, small.model)
        require(first == second, f"{second} for {small.name}", f"{first}, as before")


@rule(GROUP, _VALID)
def reasons(device: Subject) -> None:
    """AssessModel agrees with GetSupportedOperations, and gives a code and what is allowed for each refusal."""
    session = device.session()
    for small in small_models():
        message = backend_pb2.AssessModelRequest(model=session.model(small.model))
        answer = offered(
            partial(session.call, session.backend.AssessModel, message),
            "plans do not say why an operation is refused, and have no costs",
        )
        said, asked = [each.supported for each in answer.operations], list(supported(session, small.model))
        require(said == asked, f"{said} for {small.name}", f"{asked}, as GetSupportedOperations")
        for each in answer.operations:
            if not each.supported:
                require(bool(each.code and each.allowed), f"a refusal of {small.name} without a reason", "its code")
        costs = len(answer.operation_ns)
        require(costs in (0, len(said)), f"{costs} costs for {small.name}", f"none, or {len(said)}")


@rule(GROUP, _VALID, "BA-03", "VM-02", "VM-10", "VM-11", "VM-12", "MV-01", "MV-05", "MV-13", "MV-15", "MV-17", "MV-19")
def invalid(device: Subject) -> None:
    """GetSupportedOperations of a model that contradicts itself is INVALID_ARGUMENT, with the reason."""
    session = device.session()
    for what, model in invalid_models(small_models()[0]).items():
        refused(partial(supported, session, model), INVALID, what=what)


@rule(GROUP, _VALID, "VM-16", "VM-17", "MV-21")
def signatures(device: Subject) -> None:
    """An operation with an input or output too few is INVALID_ARGUMENT, or at least not supported and not prepared."""
    session, (model, *_) = device.session(), [each.model for each in small_models()]
    (operation,) = model.main.operations
    for what, operations in {
        "without its last input": (replace(operation, inputs=operation.inputs[:-1]),),
        "without its output": (replace(operation, outputs=()),),
    }.items():
        wrong = _graph(model, operations=operations)
        try:
            require(not any(supported(session, wrong)), f"support of an operation {what}", "INVALID_ARGUMENT, or false")
        except HalError as error:
            require(error.status == INVALID, f"{what}: {error}", "INVALID_ARGUMENT, or false")
        outcome = by_config(session, wrong)[0][-1].notified
        require(bool(outcome.status) and not outcome.prepared_model, f"{what}: {_words(outcome)}", "an error")


@rule(GROUP, _PREPARING, "PM-01", "PM-14", "PM-18", over=PREPARATIONS)
def prepared(device: Subject, prepare: Prepare) -> None:
    """A preparation brings 'launched', then one 'notified' with NONE and a new handle above 0, and ends: at each
    preference and each priority.
    """
    session, small = device.session(), device.small
    handles = set[int]()
    for preference, priority in product(range(3), range(3)):
        events, error = prepare(session, small.model, preference=preference, priority=priority)
        require(error is None, str(error), "success")
        kinds = [event.WhichOneof("event") for event in events]
        require(kinds == ["launched", "notified"], f"events {kinds}", "launched, and then notified once")
        notified = events[-1].notified
        require(not notified.status and notified.prepared_model > 0, _words(notified), "NONE and a handle above 0")
        require(notified.prepared_model not in handles, "the handle of another prepared model", "a new one")
        handles.add(notified.prepared_model)
        held = Prepared(session, small, notified.prepared_model)
        work = held.work()
        work.run(partial(held.execute, work.request))


def _words(notified: device_pb2.Notified) -> str:
    return " ".join(str(notified).split()) or "NONE"


def require_invalid(events: list[device_pb2.Preparation], error: HalError | None, what: str) -> None:
    """Check that invalid arguments of a preparation are refused twice: as 'notified', and as the call's own error."""
    kinds = [event.WhichOneof("event") for event in events]
    require(kinds == ["notified"], f"{what}: events {kinds}", "notified, and nothing before it")
    outcome = events[0].notified
    require(
        ErrorStatus(outcome.status) == INVALID and not outcome.prepared_model and bool(outcome.message),
        f"{what}: {_words(outcome)}",
        "INVALID_ARGUMENT with the reason and without a prepared model",
    )
    require(error is not None and error.status == INVALID, f"{what}: the call ended with {error}", "INVALID_ARGUMENT")


@rule(GROUP, _PREPARING, "PM-03", "PM-14", "BA-03", over=PREPARATIONS)
def invalid_prepared(device: Subject, prepare: Prepare) -> None:
    """Preparing a model that contradicts itself is notified as INVALID_ARGUMENT, and the call ends with it."""
    session = device.session()
    for what, model in invalid_models(small_models()[0]).items():
        require_invalid(*prepare(session, model), what)


@rule(GROUP, _PREPARING, "PM-04", "PM-05", "PM-07", "PM-08", "PM-14", over=PREPARATIONS)
def invalid_arguments(device: Subject, prepare: Prepare) -> None:
    """A preference, priority, deadline or token that cannot be is INVALID_ARGUMENT, notified and of the call."""
    session, model = device.session(), device.small.model
    cases: tuple[tuple[str, Any], ...] = (
        *(("preference", wrong) for wrong in (-1, 3)),
        *(("priority", wrong) for wrong in (-1, 3)),
        ("deadline_ns", -2),
        *(("token", bytes(length)) for length in (31, 33)),
    )
    for field, wrong in cases:
        require_invalid(*prepare(session, model, **{field: wrong}), f"{field} {wrong!r}")


@rule(GROUP, _PREPARING, "PM-15")
def invalid_hints(device: Subject) -> None:
    """A hint of no extension, or one that stands twice, is INVALID_ARGUMENT, notified and of the call."""
    session, model = device.session(), device.small.model
    hint = types_pb2.TokenValuePair(token=1 << 16)
    names = [types_pb2.ExtensionNameAndPrefix(name="com.example.check", prefix=1)]
    require_invalid(*by_config(session, model, compilation_hints=[hint]), "a hint whose prefix is not in the map")
    twice = {"compilation_hints": [hint, hint], "extension_name_to_prefix": names}
    require_invalid(*by_config(session, model, **twice), "the same hint twice")


@rule(GROUP, _VALID, "PM-15")
def unknown_hint(device: Subject) -> None:
    """A hint of an extension that the device does not know is ignored."""
    session = device.session()
    names = [types_pb2.ExtensionNameAndPrefix(name="com.example.check", prefix=1)]
    hints = [types_pb2.TokenValuePair(token=1 << 16)]
    events, error = by_config(session, device.small.model, compilation_hints=hints, extension_name_to_prefix=names)
    require(error is None and not events[-1].notified.status, f"{error or events[-1]}", "NONE")


@rule(GROUP, _PREPARING, "PM-02", "PM-14", over=PREPARATIONS)
def unsupported(device: Subject, prepare: Prepare) -> None:
    """Preparing a valid model that the device does not support is launched, and notified once: an error, or a model."""
    name = next((name for name, supports in device.support.items() if not supports), None)
    if name is None:
        raise NotOfferedError("all small models are supported, so that there is none to be refused")
    events, error = prepare(device.session(), next(each.model for each in small_models() if each.name == name))
    kinds = [event.WhichOneof("event") for event in events]
    require(kinds == ["launched", "notified"] and error is None, f"events {kinds}, {error}", "launched, and notified")
    outcome = events[-1].notified
    require(
        bool(outcome.status) != (outcome.prepared_model > 0),
        " ".join(str(outcome).split()),
        "an error or a prepared model",
    )


@rule(GROUP, _PREPARING, "QS-01", "QS-02", "QS-03", "QS-04", over=PREPARATIONS)
def deadlines(device: Subject, prepare: Prepare) -> None:
    """Priorities and deadlines: NONE, or MISSED_DEADLINE if the instant has passed, never anything else."""
    session, model = device.session(), device.small.model
    cases: dict[str, tuple[dict[str, Any], tuple[ErrorStatus, ...]]] = {
        "priority LOW": ({"priority": types_pb2.PRIORITY_LOW}, ()),
        "priority HIGH": ({"priority": types_pb2.PRIORITY_HIGH}, ()),
        "the latest instant": ({"deadline_ns": LATEST_NS}, ()),
        "the present instant": ({"deadline_ns": now_ns()}, MISSED),
        "instant 0": ({"deadline_ns": 0}, MISSED),
    }
    for what, (config, allowed) in cases.items():
        events, error = prepare(session, model, **config)
        require(error is None, f"{what}: {error}", "a launch")
        status = ErrorStatus(events[-1].notified.status)
        expected = ("NONE", *(each.name for each in allowed))
        require(status.name in expected, f"{what}: {status.name}", " or ".join(expected))


@rule(GROUP, "reference/protocol.md#fields-that-are-absent", over=PREPARATIONS)
def absent_fields(device: Subject, prepare: Prepare) -> None:
    """Fields that are absent have their defaults: a call with nothing but the model prepares it."""
    absent = {"preference": None, "priority": None, "deadline_ns": None, "token": b""}
    events, error = prepare(device.session(), device.small.model, **absent)
    require(error is None and not events[-1].notified.status, f"{error or events[-1]}", "NONE")


@rule(GROUP, "reference/protocol.md#a-session", "PM-18")
def twice(device: Subject) -> None:
    """A model prepared twice gives two prepared models: releasing one leaves the other, and is for good."""
    first = device.prepare()
    second = device.prepare(session=first.session)
    first.release()
    work = second.work()
    work.run(lambda: second.execute(work.request))
    refused(lambda: first.execute(work.request), INVALID, what="a released prepared model")
