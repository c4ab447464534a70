"""Answers that break the rules are refused by the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from nnhal.codec import model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import MissingMethodError
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.types import BufferRole, Request
from nnhal.v1 import (
    backend_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    fenced_execution_callback_pb2,
    memory_pb2,
    model_pb2,
    request_pb2,
)
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from tests.support.additions import ELEMENTS, addition_in_ashmem, addition_model, addition_of_any_size
from tests.support.refusals import FAILURE, refusal
from tests.support.scripted import SUCCESS, Behaviour, Call, Script, Serve


def result(
    fits: bool, *shapes: tuple[Sequence[int], bool], timing: tuple[int, int] = (-1, -1)
) -> request_pb2.ExecutionResult:
    """Make a result with (dimensions, whether it fits) of each output."""
    return request_pb2.ExecutionResult(
        output_sufficient_size=fits,
        output_shapes=[request_pb2.OutputShape(dimensions=d, is_sufficient=s) for d, s in shapes],
        timing=request_pb2.Timing(time_on_device_ns=timing[0], time_in_driver_ns=timing[1]),
    )


def answering(answer: request_pb2.ExecutionResult) -> tuple[Script, Callable[[Any], burst_pb2.BurstAnswer]]:
    script = {
        "PreparedModel.ExecuteSynchronouslyWithConfig": (
            prepared_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigResponse(result=answer)
        ),
        "Execution.ExecuteSynchronously": execution_pb2.ExecutionServiceExecuteSynchronouslyResponse(result=answer),
    }
    return script, lambda _: burst_pb2.BurstAnswer(result=answer)


def executions(device: RemoteDevice, request: Request, **model: Any) -> list[Callable[[], object]]:
    """Execute a request in every way and return the results."""
    prepared = device.prepare_model(**model)
    execution, burst = prepared.create_reusable_execution(request), prepared.configure_execution_burst()
    return [
        lambda: prepared.execute(request),
        execution.execute,
        lambda: burst.execute(request, [-1]),
        lambda: burst.execute(request),
        lambda: burst.run(execution),
        lambda: burst.run(execution, 2**62),
    ]


FULL = [ELEMENTS]
CONTRADICTIONS = {
    "all fit, one does not": (result(True, (FULL, False)), "all outputs fit.* that these do not: \\[0\\]"),
    "not all fit, each does": (result(False, (FULL, True)), "some output does not fit.* that these do not: \\[\\]"),
    "not all fit, nothing else said": (result(False), "some output does not fit"),
    "nothing at all": (request_pb2.ExecutionResult(), "some output does not fit"),
    "too many shapes": (result(True, (FULL, True), (FULL, True)), "2 output shapes, expected none or 1"),
    "a negative dimension": (
        result(True, ([-1], True)),
        "dimensions \\[-1\\] of output 0, expected 0 or more",
    ),
    "another size": (result(True, ([ELEMENTS + 1], True)), "dimensions \\[17\\] .* request say \\[16\\]"),
    "another rank": (result(True, ([1, ELEMENTS], True)), "dimensions \\[1, 16\\] .* request say \\[16\\]"),
    "longer on the device": (result(True, timing=(6, 5)), "6 ns of timing on the device, expected at most 5 ns"),
    "below no time": (result(True, timing=(-2, -1)), "a timing of -2 and -1 ns, expected -1 or more"),
    "below no time in the driver": (result(True, timing=(-1, -5)), "a timing of -1 and -5 ns"),
}


@pytest.mark.contract("RS-04", "RS-07")
@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_result_that_contradicts_the_rules_is_a_general_failure(scripted: Serve, case: str) -> None:
    answer, words = CONTRADICTIONS[case]
    device, _ = scripted(*answering(answer))
    for execute in executions(device, addition_in_ashmem().request, model=addition_model()):
        for _ in range(2):
            refusal(execute, FAILURE, words)


@pytest.mark.contract("RS-07")
def test_what_the_request_states_of_an_output_counts_too(scripted: Serve) -> None:
    device, _ = scripted(*answering(result(True, ([ELEMENTS + 1], True))))
    request = addition_in_ashmem().request
    open_size = executions(device, request, model=addition_of_any_size())
    for execute in open_size:
        execute()
    (output,) = request.outputs
    stated = replace(request, outputs=(replace(output, dimensions=(ELEMENTS,)),))
    for execute in executions(device, stated, model=addition_of_any_size()):
        refusal(execute, FAILURE, "request say \\[16\\]")


ALLOWED = [
    result(True),
    result(True, (FULL, True)),
    result(True, ([0], True)),
    result(False, (FULL, False)),
    result(False, ([], False)),
    result(True, timing=(5, 5)),
    result(True, timing=(5, -1)),
    result(True, timing=(-1, 5)),
]


@pytest.mark.contract("RS-07")
@pytest.mark.parametrize("answer", ALLOWED, ids=range(len(ALLOWED)))
def test_a_valid_result_is_returned_unchanged(scripted: Serve, answer: request_pb2.ExecutionResult) -> None:
    device, _ = scripted(*answering(answer))
    for execute in executions(device, addition_in_ashmem().request, model=addition_model()):
        for _ in range(2):
            execute()


@pytest.mark.contract("RS-07")
def test_a_burst_checks_the_same_answer_again_for_another_execution(scripted: Serve) -> None:
    device, _ = scripted(*answering(result(True, (FULL, True))))
    prepared = device.prepare_model(addition_of_any_size())
    burst, request = prepared.configure_execution_burst(), addition_in_ashmem().request
    (output,) = request.outputs
    fitting, other = (
        prepared.create_reusable_execution(replace(request, outputs=(replace(output, dimensions=(count,)),)))
        for count in (ELEMENTS, ELEMENTS + 1)
    )
    first = burst.run(fitting)
    assert burst.run(fitting) is first
    refusal(lambda: burst.run(other), FAILURE, "request say \\[17\\]")
    assert burst.run(fitting) == first


@pytest.mark.contract("RS-04")
def test_a_negative_number_of_copied_bytes_is_a_general_failure(scripted: Serve) -> None:
    staging = request_pb2.Staging(bytes=-1)
    device, _ = scripted(on_burst=lambda _: burst_pb2.BurstAnswer(result=SUCCESS, staging=staging))
    prepared = device.prepare_model(addition_model())
    burst, request = prepared.configure_execution_burst(), addition_in_ashmem().request
    refusal(lambda: burst.execute(request), FAILURE, "reports -1 bytes copied in 0 ns, expected 0 or more")


SPANS = {
    "an end before the beginning": ((9, 8), "an execution began at 9 ns and ended at 8 ns"),
    "an instant before the clock began": ((-5, 8), "an execution began at -5 ns"),
}
COPIES = {
    "an end before the beginning": ((4, 9, 8), "a copy began at 9 ns"),
    "other bytes than in all": ((3, 8, 9), "4 bytes copied, but the copies in it have \\[3\\]"),
    "bytes below 0": ((-4, 8, 9), "4 bytes copied, but the copies in it have \\[-4\\]"),
}


@pytest.mark.parametrize("case", SPANS)
def test_a_span_that_makes_no_sense_is_a_general_failure(scripted: Serve, case: str) -> None:
    (started_ns, ended_ns), words = SPANS[case]
    span = request_pb2.Span(started_ns=started_ns, ended_ns=ended_ns)
    answer = burst_pb2.BurstAnswer(result=SUCCESS, span=span)
    info = fenced_execution_callback_pb2.GetExecutionInfoResponse(span=span)
    refuse_both(scripted, answer, info, words)


@pytest.mark.parametrize("case", COPIES)
def test_copies_that_make_no_sense_are_a_general_failure(scripted: Serve, case: str) -> None:
    (size, started_ns, ended_ns), words = COPIES[case]
    copy = request_pb2.Copy(bytes=size, started_ns=started_ns, ended_ns=ended_ns)
    staging = request_pb2.Staging(bytes=4, copies=[copy])
    answer = burst_pb2.BurstAnswer(result=SUCCESS, staging=staging)
    info = fenced_execution_callback_pb2.GetExecutionInfoResponse(staging=staging)
    refuse_both(scripted, answer, info, words)


def refuse_both(
    scripted: Serve,
    answer: burst_pb2.BurstAnswer,
    info: fenced_execution_callback_pb2.GetExecutionInfoResponse,
    words: str,
) -> None:
    """Check that neither a burst nor a launched execution accepts an answer."""
    device, _ = scripted({"FencedExecutionCallback.GetExecutionInfo": info}, on_burst=lambda _: answer)
    prepared, request = device.prepare_model(addition_model()), addition_in_ashmem().request
    refusal(lambda: prepared.configure_execution_burst().execute(request), FAILURE, words)
    refusal(prepared.execute_fenced(request).info, FAILURE, words)


@pytest.mark.contract("RS-05")
@pytest.mark.parametrize(
    ("buffer", "token", "words"),
    [
        (0, 5, "buffer 0, expected a handle above 0"),
        (-3, 5, "buffer -3, expected a handle above 0"),
        (5, 0, "token 0, expected a handle above 0"),
        (5, -1, "token -1, expected a handle above 0"),
    ],
)
def test_a_null_buffer_or_token_is_a_general_failure(scripted: Serve, buffer: int, token: int, words: str) -> None:
    device, _ = scripted({"Device.Allocate": device_pb2.AllocateResponse(buffer=buffer, token=token)})
    prepared = device.prepare_model(addition_model())
    refusal(lambda: device.allocate([prepared], [BufferRole(0, 0)]), FAILURE, words)


@pytest.mark.contract("RS-06")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_support_for_another_number_of_operations_is_a_general_failure(scripted: Serve, count: int) -> None:
    operation = backend_pb2.OperationSupport(supported=True)
    device, _ = scripted(
        {
            "Device.GetSupportedOperations": device_pb2.GetSupportedOperationsResponse(supported=[True] * count),
            "Backend.AssessModel": backend_pb2.AssessModelResponse(operations=[operation] * count),
        }
    )
    model = addition_model(operations=2)
    for ask in (device.supported_operations, device.assess_model):
        refusal(lambda ask=ask: ask(model), FAILURE, f"answered for {count} operations, expected 2")  # type: ignore[misc]


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize("count", [1, 3])
def test_costs_of_another_number_of_operations_are_a_general_failure(scripted: Serve, count: int) -> None:
    operations = [backend_pb2.OperationSupport(supported=True)] * 2
    answer = backend_pb2.AssessModelResponse(operations=operations, operation_ns=[1.0] * count)
    device, _ = scripted({"Backend.AssessModel": answer})
    words = f"answered with the costs of {count} operations, expected 2 or none"
    refusal(lambda: device.assess_model(addition_model(operations=2)), FAILURE, words)


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize("groups", [[[1, 0]], [[0, 0]], [[0, 1], [1]], [[1, 2]]])
def test_operations_that_cannot_go_together_are_a_general_failure(scripted: Serve, groups: list[list[int]]) -> None:
    together = [backend_pb2.OperationGroup(operations=each) for each in groups]
    operations = [backend_pb2.OperationSupport(supported=True)] * 2
    device, _ = scripted(
        {"Backend.AssessModel": backend_pb2.AssessModelResponse(operations=operations, together=together)}
    )
    words = "answered with operations that go together .*, expected ascending indexes of 2 operations"
    refusal(lambda: device.assess_model(addition_model(operations=2)), FAILURE, words)


@pytest.mark.contract("RS-04")
def test_memory_of_a_kind_that_does_not_exist_is_a_general_failure(scripted: Serve) -> None:
    kind = backend_pb2.MemoryKind.ValueType(77)
    device, _ = scripted({"Backend.Describe": backend_pb2.DescribeResponse(name="x", imports=[kind], alignment=64)})
    refusal(device.describe, FAILURE, "memory kinds \\[77\\]")


def description(**fields: Any) -> backend_pb2.DescribeResponse:
    """Return a valid description with some fields changed."""
    return backend_pb2.DescribeResponse(**{"alignment": 64, **fields})


def costs(**figures: Any) -> backend_pb2.DescribeResponse:
    return description(transfer_costs=backend_pb2.TransferCosts(**figures))


def factories(*entries: tuple[str, int]) -> backend_pb2.DescribeResponse:
    """Return a description with tensor handle factories: their ids and alignments."""
    handles = [backend_pb2.TensorHandleFactory(id=name, alignment=alignment) for name, alignment in entries]
    return description(tensor_handle_factories=handles)


NONSENSE = {
    "no alignment": (description(alignment=0), "alignment 0, expected a power of two from 1 to 65536"),
    "an alignment below 0": (description(alignment=-64), "alignment -64, expected a power of two"),
    "an alignment of three": (description(alignment=3), "alignment 3, expected a power of two"),
    "an alignment of no memory": (description(alignment=2**30), "alignment 1073741824, expected a power of two"),
    "a factory's alignment": (factories(("a", 64), ("b", 3)), "tensor handle factory 'b' answered with alignment 3"),
    "a factory twice": (factories(("a", 64), ("a", 64)), "factories \\['a', 'a'\\], expected each once"),
    "a launch that is no number": (costs(hop_ns=nan), "transfer_costs.hop_ns nan, expected 0 to 1e\\+15"),
    "a launch below no time": (costs(hop_ns=-1e12), "transfer_costs.hop_ns -1e\\+12, expected 0"),
    "a sync that never ends": (costs(sync_ns=inf), "transfer_costs.sync_ns inf, expected 0"),
    "an import of years": (costs(import_ns=1e300), "transfer_costs.import_ns 1e\\+300, expected 0"),
    "a copy that earns time": (costs(copy_ns_per_byte=-0.5), "transfer_costs.copy_ns_per_byte -0.5, expected 0"),
    "a network that is no number": (costs(round_trip_ns=nan), "transfer_costs.round_trip_ns nan, expected 0"),
    "a network that takes longer": (
        costs(hop_ns=1, round_trip_ns=2),
        "transfer_costs.round_trip_ns 2, expected at most hop_ns",
    ),
    "workers below none": (description(workers=-1), "-1 workers, expected 0 or more"),
    "words of no extension": (description(source_extension="ONNX"), "source extension 'ONNX'"),
}


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize("case", NONSENSE)
def test_a_description_that_makes_no_sense_is_a_general_failure_that_names_the_method(
    scripted: Serve, case: str
) -> None:
    answer, words = NONSENSE[case]
    device, _ = scripted({"Backend.Describe": answer})
    refusal(device.describe, FAILURE, f"/scripted: BackendService/Describe.* {words}")


@pytest.mark.parametrize("alignment", [1, 64, 65536])
def test_a_description_within_the_rules_is_accepted(scripted: Serve, alignment: int) -> None:
    answer = costs(hop_ns=1e15, round_trip_ns=1e15, copy_ns_per_byte=0.25)
    answer.MergeFrom(factories(("a", alignment), ("b", 1)))
    device, _ = scripted({"Backend.Describe": answer})
    described = device.describe()
    assert described.transfer_costs.hop_ns == 1e15
    assert [factory.alignment for factory in described.tensor_handle_factories] == [alignment, 1]


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize("cost", [nan, inf, -inf, -1.0, 1e300])
def test_a_cost_of_an_operation_that_makes_no_sense_is_a_general_failure(scripted: Serve, cost: float) -> None:
    operations = [backend_pb2.OperationSupport(supported=True)] * 2
    device, _ = scripted(
        {"Backend.AssessModel": backend_pb2.AssessModelResponse(operations=operations, operation_ns=[1.0, cost])}
    )
    words = "/scripted: BackendService/AssessModel answered with operation_ns of operation 1 .*, expected 0 to 1e"
    refusal(lambda: device.assess_model(addition_model(operations=2)), FAILURE, words)


def test_a_method_that_a_device_does_not_serve_is_named(scripted: Serve) -> None:
    device, _ = scripted()
    with pytest.raises(MissingMethodError, match=r"/scripted: nnhal\.v1\.BackendService/Describe: UNIMPLEMENTED: "):
        device.describe()


def test_a_description_is_asked_for_once_unless_it_was_refused(scripted: Serve) -> None:
    answers = [backend_pb2.DescribeResponse(alignment=64, imports=[backend_pb2.MemoryKind.ValueType(77)])]
    answers += [backend_pb2.DescribeResponse(alignment=64)] * 2

    def describe(request: Any, call: Call) -> backend_pb2.DescribeResponse:
        return answers.pop(0)

    device, process = scripted({"Backend.Describe": describe})
    refusal(device.describe, FAILURE)
    assert device.describe() is device.describe()
    assert process.count("Backend.Describe") == 2


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize("handle", [0, -1])
def test_a_null_execution_burst_or_callback_is_a_general_failure(scripted: Serve, handle: int) -> None:
    device, _ = scripted(
        {
            "PreparedModel.CreateReusableExecution": prepared_pb2.CreateReusableExecutionResponse(execution=handle),
            "PreparedModel.ConfigureExecutionBurst": prepared_pb2.ConfigureExecutionBurstResponse(burst=handle),
            "PreparedModel.ExecuteFencedWithConfig": prepared_pb2.PreparedModelServiceExecuteFencedWithConfigResponse(
                result=prepared_pb2.FencedExecutionResult(callback=handle)
            ),
        }
    )
    prepared, request = device.prepare_model(addition_model()), addition_in_ashmem().request
    refusal(lambda: prepared.create_reusable_execution(request), FAILURE, f"execution {handle}")
    refusal(prepared.configure_execution_burst, FAILURE, f"burst {handle}")
    refusal(lambda: prepared.execute_fenced(request), FAILURE, f"callback {handle}")


def naming(offer: Callable[[Call], int]) -> dict[str, Behaviour]:
    """Return answers that name a descriptor in place of a channel or a fence."""
    return {
        "PreparedModel.ConfigureExecutionBurst": lambda _, call: prepared_pb2.ConfigureExecutionBurstResponse(
            burst=1, channel_descriptor_id=offer(call)
        ),
        "PreparedModel.ExecuteFencedWithConfig": (
            lambda _, call: prepared_pb2.PreparedModelServiceExecuteFencedWithConfigResponse(
                result=prepared_pb2.FencedExecutionResult(callback=1, sync_fence_descriptor_id=offer(call))
            )
        ),
        "Execution.OpenLaunchChannel": (
            lambda _, call: execution_pb2.OpenLaunchChannelResponse(channel_descriptor_id=offer(call))
        ),
    }


def offer_memory(call: Call) -> int:
    memory = create_ashmem(4096)
    return call.offer(Descriptor.duplicate(memory.descriptor))


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize(
    ("offer", "words"),
    [(lambda _: 4711, "descriptor 4711, which it does not have"), (offer_memory, "socket")],
    ids=["none", "no socket"],
)
def test_a_descriptor_that_makes_no_sense_is_a_general_failure(
    scripted: Serve, offer: Callable[[Call], int], words: str
) -> None:
    device, _ = scripted(naming(offer))
    prepared, request = device.prepare_model(addition_model()), addition_in_ashmem().request
    refusal(prepared.configure_execution_burst, FAILURE, words)
    refusal(lambda: prepared.execute_fenced(request), FAILURE, words)
    refusal(device.open_launcher, FAILURE, words)


INFOS = {
    "below no time": (((-1, -1), (-1, -2)), "timing since the fences of -1 and -2 ns"),
    "longer on the device": (((9, 8), (-1, -1)), "9 ns of timing since the launch on the device"),
    "longer since the fences": (((5, 5), (5, 6)), "6 ns in the driver since the fences, expected at most 5 ns"),
    "longer on the device since the fences": (((5, 9), (6, 9)), "6 ns on the device since the fences"),
}


@pytest.mark.contract("RS-04")
@pytest.mark.parametrize("case", INFOS)
def test_times_of_a_fenced_execution_that_contradict_the_rules_are_a_general_failure(
    scripted: Serve, case: str
) -> None:
    (launched, fenced), words = INFOS[case]
    info = fenced_execution_callback_pb2.GetExecutionInfoResponse(
        timing_launched=request_pb2.Timing(time_on_device_ns=launched[0], time_in_driver_ns=launched[1]),
        timing_fenced=request_pb2.Timing(time_on_device_ns=fenced[0], time_in_driver_ns=fenced[1]),
    )

    def answer(message: bytes) -> bytes:
        return execution_pb2.LaunchAnswer(info=info).SerializeToString()

    device, _ = scripted(
        {
            "FencedExecutionCallback.GetExecutionInfo": info,
            **naming(lambda call: call.channel("launch", answer)),
        }
    )
    prepared, request = device.prepare_model(addition_model()), addition_in_ashmem().request
    refusal(prepared.execute_fenced(request).info, FAILURE, words)
    execution = prepared.create_reusable_execution(request)
    refusal(lambda: device.open_launcher().info(execution), FAILURE, words)


def _with_a_pool(model: model_pb2.Model) -> None:
    model.pools.add(ashmem=memory_pb2.Ashmem(descriptor_id=3, size=64))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda given: given.main.operations[0].inputs.append(99), "operation 0: input 3 is operand 99"),
        (_with_a_pool, "it refers to descriptor 3"),
    ],
)
def test_a_replacement_that_is_no_model_is_refused(
    scripted: Serve, spoil: Callable[[model_pb2.Model], object], words: str
) -> None:
    model = addition_model()
    given = backend_pb2.Substitution(operations=[0], replacement="one", subgraph=model_to_wire(model, lambda _: 0))
    answer = backend_pb2.OptimizeSubgraphResponse(substitutions=[given])
    device, _ = scripted({"Backend.OptimizeSubgraph": lambda *_: answer})
    assert device.optimize_subgraph(model).substitutions[0].subgraph == model
    spoil(answer.substitutions[0].subgraph)
    refusal(lambda: device.optimize_subgraph(model), FAILURE, f"answered with 'one', which is no model: .*{words}")
