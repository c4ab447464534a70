"""Device memory: buffers that the device owns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from nnhal.codec import memory_to_wire
from nnhal.errors import HalError
from nnhal.fence import create_fence
from nnhal.memory import create_ashmem
from nnhal.types import DataLocation, ErrorStatus, Request, RequestArgument
from nnhal.v1 import buffer_pb2
from nnhal_conformance.device import Subject
from nnhal_conformance.device_buffers import WHOLE, DeviceBuffer, allocate
from nnhal_conformance.forms import COUNT, gather_request, gathering, joined, prepare_twice
from nnhal_conformance.rule import FAILURE, INVALID, refused, require, rule
from nnhal_conformance.small_models import SmallRequest
from nnhal_conformance.ways import ALL_RUNS, LAUNCHES, LaunchWay, RunWay, refused_run

GROUP = "buffers"
_PAGE = "client.md#where-it-lies"
_ROUNDS = 20


@rule(GROUP, _PAGE, "MD-47", "MD-38", "EX-14", over=ALL_RUNS)
def runs(device: Subject, way: RunWay) -> None:
    """A run reads a buffer, and another one writes it."""
    buffer = DeviceBuffer.on(device)
    read, write = way(buffer.held, buffer.reading()), way(buffer.held, buffer.writing())
    for seed in (4, 5):
        buffer.work.fill(seed)
        buffer.fill(seed)
        read()
        buffer.work.require_output()
        buffer.work.fill(seed)
        write()
        buffer.require_output_in_it()


@rule(GROUP, _PAGE, "MD-34", "MD-45", "MD-46", "MD-47", over=ALL_RUNS)
def uninitialised(device: Subject, way: RunWay) -> None:
    """Reading a buffer that holds nothing is GENERAL_FAILURE, for copies and runs; writing it then works."""
    buffer = DeviceBuffer.on(device)
    buffer.work.fill()
    refused(lambda: buffer.copy_to(buffer.size), FAILURE, what="copyTo")
    refused_run(way, buffer.held, buffer.reading(), FAILURE, what="an execution")
    require(buffer.work.is_untouched, "an output", "nothing written")
    way(buffer.held, buffer.writing())()
    buffer.require_output_in_it()


@rule(GROUP, _PAGE, "RE-06", "MD-45", "MD-46", "MD-47")
def changes(device: Subject) -> None:
    """A reusable execution sees what its buffers hold at each run, also after many runs alike."""
    buffer = DeviceBuffer.on(device)
    held, work = buffer.held, buffer.work
    read, write = held.bind(buffer.reading()), held.bind(buffer.writing())
    for _ in range(2):
        refused(read.run, FAILURE, what="a run that reads nothing")
        for seed in range(4):
            work.fill(seed)
            buffer.fill(seed)
            read.run()
            work.require_output()
        write.run()
        refused(lambda: buffer.copy_from(b"x"), INVALID, what="a copy of 1 byte")


@rule(GROUP, _PAGE, "MD-43", "MD-44", over=ALL_RUNS)
def roles(device: Subject, way: RunWay) -> None:
    """A buffer is used in the roles that it was allocated for only."""
    buffer = DeviceBuffer.on(device)
    held = buffer.held
    source, target = allocate(held, [(0, 0)]).token, allocate(held, (), [(0, 0)]).token
    refused_run(way, held, buffer.writing(source), INVALID, what="a buffer for an input, as output")
    refused_run(way, held, buffer.reading(target), INVALID, what="a buffer for the output, as input")
    buffer.work.fill()
    way(held, buffer.writing(target))()


@rule(GROUP, _PAGE, "MD-48", over=ALL_RUNS)
def input_and_output(device: Subject, way: RunWay) -> None:
    """A buffer that is input and output of one request is INVALID_ARGUMENT, and keeps what it holds."""
    buffer = DeviceBuffer.on(device)
    buffer.fill(1)
    both = replace(buffer.reading(), outputs=(WHOLE,))
    refused_run(way, buffer.held, both, INVALID)
    buffer.require_values(1)


@rule(GROUP, _PAGE, "MD-57", "RQ-10", over=ALL_RUNS)
def parts(device: Subject, way: RunWay) -> None:
    """An argument that is a part of a buffer is INVALID_ARGUMENT."""
    buffer = DeviceBuffer.on(device)
    buffer.fill(1)
    for numbers in ((1, 0, 0), (0, 1, 0), (0, buffer.size, 0), (0, 0, 1)):
        part = RequestArgument(DataLocation(1, *numbers))
        for what, request in {"read": buffer.reading(argument=part), "written": buffer.writing(argument=part)}.items():
            refused_run(way, buffer.held, request, INVALID, what=f"{numbers}, {what}")


@rule(GROUP, "reference/protocol.md#a-session", "MD-41", over=ALL_RUNS)
def of_others(device: Subject, way: RunWay) -> None:
    """The buffer of another session is unknown, and keeps what it holds."""
    theirs, held = DeviceBuffer.on(device), device.prepare()
    theirs.fill(1)
    seen = DeviceBuffer(held, theirs.made)
    for what, request in {"read": seen.reading(), "written": seen.writing()}.items():
        refused_run(way, held, request, INVALID, what=what)
    refused(lambda: seen.copy_to(seen.size), INVALID, what="copyTo")
    refused(lambda: seen.fill(2), INVALID, what="copyFrom")
    seen.release()
    theirs.require_values(1)


@rule(GROUP, _PAGE, "MD-19", "MD-20", "MD-41", "MD-42", "MD-59", "RQ-11", "RQ-12", over=ALL_RUNS)
def tokens(device: Subject, way: RunWay) -> None:
    """Tokens differ while buffers live. Released and unknown ones are INVALID_ARGUMENT, as are those of another
    preparation of the model.
    """
    buffer = DeviceBuffer.on(device)
    held = buffer.held
    buffer.fill(1)
    others = [buffer.of(held) for _ in range(3)]
    found = {each.token for each in (buffer.made, *others)}
    require(len(found) == 4, f"tokens {sorted(found)}", "4 that differ")
    bound = held.bind(buffer.writing(others[0].token))
    twin = device.prepare(session=held.session)
    for _ in range(2):
        DeviceBuffer(held, others[0]).release()
    refused(bound.run, INVALID, what="a reusable execution with a released buffer")
    for what, token, by in (
        ("token -1", -1, held),
        ("an unknown token", 2**62, held),
        ("the token of a released buffer", others[0].token, held),
        ("a buffer of another prepared model", buffer.made.token, twin),
    ):
        for request in (buffer.reading(token), buffer.writing(token)):
            refused_run(way, by, request, INVALID, what=what)
    way(held, buffer.reading())()


@rule(GROUP, _PAGE, "MD-61")
def cached_in_bursts(device: Subject) -> None:
    """Memory tokens of device buffers are ignored in bursts."""
    buffer = DeviceBuffer.on(device)
    burst = buffer.held.burst()
    buffer.fill(2)
    for memory_tokens in ([-1, -1], [0, 1], [5, 5], [7, 7]):
        buffer.work.run(partial(burst.execute, buffer.reading(), memory_tokens), 2)


@rule(GROUP, _PAGE, "MD-62", over=LAUNCHES)
def refused_at_once(device: Subject, launch: LaunchWay) -> None:
    """A launch with buffers that it cannot use is refused, though it would wait for fences."""
    buffer = DeviceBuffer.on(device)
    twin = device.prepare(session=buffer.held.session)
    foreign = buffer.of(twin).token
    _, pending = create_fence()
    cases: dict[str, tuple[Request, ErrorStatus]] = {
        "an empty buffer": (buffer.reading(), FAILURE),
        "a buffer of another preparation": (buffer.reading(foreign), INVALID),
        "such a buffer as output": (buffer.writing(foreign), INVALID),
        "one buffer as input and output": (replace(buffer.reading(), outputs=(WHOLE,)), INVALID),
    }
    waiting = [pending.descriptor]
    for what, (request, status) in cases.items():
        refused_run(launch, buffer.held, request, status, what=what, wait_for=waiting)


@rule(GROUP, _PAGE, "MD-62", "FC-12", over=LAUNCHES)
def launched(device: Subject, launch: LaunchWay) -> None:
    """The output of a launch is in its buffer when the fence signals, and may be read by a launch behind it."""
    buffer = DeviceBuffer.on(device)
    signal, pending = create_fence()
    buffer.work.fill(1)
    writing = launch(buffer.held, buffer.writing())([pending.descriptor])
    assert writing.fence is not None
    reading = launch(buffer.held, buffer.reading())([writing.fence.descriptor])
    refused(lambda: buffer.copy_to(buffer.size), FAILURE, what="copyTo before the launch has begun")
    require(buffer.work.is_untouched, "an output before the fence has signalled", "nothing written")
    signal.send()
    writing.require_success()
    reading.require_success()
    require(not buffer.work.is_untouched, "nothing written", "the output of the launch behind it")
    buffer.require_output_in_it()


@rule(GROUP, _PAGE, "MD-55", "MD-62", "FC-12", over=LAUNCHES)
def never_launched(device: Subject, launch: LaunchWay) -> None:
    """If a fence fails, the launch and those behind it do not run, and their output buffers hold nothing."""
    buffer = DeviceBuffer.on(device)
    buffer.fill(1)
    signal, pending = create_fence()
    writing = launch(buffer.held, buffer.writing())([pending.descriptor])
    buffer.require_values(1)
    signal.fail()
    writing.require_error(FAILURE)
    refused(lambda: buffer.copy_to(buffer.size), FAILURE, what="copyTo")


@rule(GROUP, _PAGE, "MD-62", over=LAUNCHES)
def read_too_early(device: Subject, launch: LaunchWay) -> None:
    """A launch that reads a buffer before the one that writes it has ended fails; the other one goes on."""
    buffer = DeviceBuffer.on(device)
    signal, pending = create_fence()
    buffer.work.fill(1)
    writing = launch(buffer.held, buffer.writing())([pending.descriptor])
    launch(buffer.held, buffer.reading())().require_error(FAILURE)
    signal.send()
    writing.require_success()
    buffer.require_output_in_it()


@rule(GROUP, _PAGE, "MD-58", over=LAUNCHES)
def released_while_used(device: Subject, launch: LaunchWay) -> None:
    """A buffer that is released while a launch uses it still serves it."""
    buffer = DeviceBuffer.on(device)
    buffer.work.fill(1)
    buffer.fill(1)
    signal, pending = create_fence()
    reading = launch(buffer.held, buffer.reading())([pending.descriptor])
    buffer.release()
    refused(lambda: buffer.copy_to(buffer.size), INVALID, what="copyTo of a released buffer")
    signal.send()
    reading.require_success()
    buffer.work.require_output()


@rule(GROUP, "reference/protocol.md#when-a-session-ends")
def end(device: Subject) -> None:
    """Buffers end with their session, and new ones hold nothing of them."""
    buffer = DeviceBuffer.on(device)
    buffer.fill(2)
    buffer.held.session.close()
    other = DeviceBuffer.on(device)
    refused(lambda: other.copy_to(other.size), FAILURE, what="a buffer that was just made")


@rule(GROUP, _PAGE, "EX-14", over=ALL_RUNS)
def all_arguments(device: Subject, way: RunWay) -> None:
    """A run may have each of its arguments in a buffer of its own."""
    held = device.prepare()
    work, count = held.work(), held.small.inputs
    inputs = [DeviceBuffer(held, allocate(held, [(0, number)])) for number in range(count)]
    output = DeviceBuffer(held, allocate(held, (), [(0, 0)]))
    places = tuple(RequestArgument(DataLocation(number)) for number in range(count + 1))
    tokens = tuple(each.made.token for each in (*inputs, output))
    run = way(held, Request(places[:-1], places[-1:], tokens))
    for seed in (1, 2):
        work.fill(seed)
        for buffer, values in zip(inputs, held.small.values(seed), strict=True):
            buffer.copy_from(values.tobytes())
        run()
        output.require_output_in_it(work)


@rule(GROUP, _PAGE, "MD-49", "MD-50", over=ALL_RUNS)
def several_arguments(device: Subject, way: RunWay) -> None:
    """A buffer may be several inputs of a request; as several outputs it is INVALID_ARGUMENT."""
    small = device.small
    held = prepare_twice(device, small)
    works = [SmallRequest(small) for _ in range(2)]
    request = joined(*works)
    pools = (*request.pools, allocate(held, [(0, 0), (0, small.inputs)], [(0, 0), (0, 1)]).token)
    buffer = RequestArgument(DataLocation(2))
    refused_run(way, held, replace(request, outputs=(buffer, buffer), pools=pools), INVALID)
    content = DeviceBuffer(held, allocate(held, [(0, 0), (0, small.inputs)]))
    for work in works:
        work.fill(3)
    content.fill(3)
    inputs = [buffer if number % small.inputs == 0 else given for number, given in enumerate(request.inputs)]
    way(held, replace(request, inputs=tuple(inputs), pools=(*request.pools, content.made.token)))()
    for work in works:
        work.require_output()


@rule(GROUP, _PAGE, "MD-55", "VR-06", over=ALL_RUNS)
def failed_run(device: Subject, way: RunWay) -> None:
    """A run that fails in the middle leaves the buffer that it was to write uninitialised, and others as they are."""
    held = device.prepare_if_supported(gathering(), "GATHER of float32")
    buffer = DeviceBuffer(held)
    for _ in range(2):
        for is_good in (True, False):
            given = gather_request(is_good)
            request = replace(given.request(), outputs=(WHOLE,), pools=(given.memory, buffer.made.token))
            if is_good:
                way(held, request)()
                values = np.frombuffer(buffer.copy_to(4 * COUNT), np.float32).tolist()
                require(values == given.read(0, np.float32)[::-1], values, "the numbers in another order")
            else:
                refused_run(way, held, request, *ErrorStatus, what="an index beyond the last")
                buffer.require_nothing(4 * COUNT)


def _repeated(call: Callable[[], object]) -> None:
    for _ in range(_ROUNDS):
        try:
            call()
        except HalError as error:
            require(error.status in (INVALID, FAILURE), str(error), "INVALID_ARGUMENT or GENERAL_FAILURE")


@rule(GROUP, _PAGE, "MD-58")
def contended(device: Subject) -> None:
    """Threads that use a buffer at once get errors at worst, also while it is released; others are not disturbed."""
    other, buffer = DeviceBuffer.on(device), DeviceBuffer.on(device)
    other.fill(1)
    session, number = buffer.held.session, buffer.made.buffer
    source, target = (memory_to_wire(create_ashmem(buffer.size), session.link.issue) for _ in range(2))
    copy_from = buffer_pb2.CopyFromRequest(buffer=number, src=source)
    copy_to = buffer_pb2.CopyToRequest(buffer=number, dst=target)
    calls: list[Callable[[], object]] = [
        buffer.held.bind(buffer.reading()).run,
        buffer.held.bind(buffer.writing()).run,
        lambda: session.call(session.buffer.CopyFrom, copy_from),
        lambda: session.call(session.buffer.CopyTo, copy_to),
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(_repeated, call) for call in calls]:
            done.result()
        buffer.fill(2)
        buffer.require_values(2)
        works = [pool.submit(_repeated, call) for call in calls]
        buffer.release()
        for done in works:
            done.result()
    refused(lambda: buffer.copy_to(buffer.size), INVALID, what="copyTo of a released buffer")
    other.require_values(1)


@rule(GROUP, "reference/protocol.md#a-session", "MD-41")
def guessed(device: Subject) -> None:
    """Who guesses the tokens of another session gets nothing."""
    theirs, own = DeviceBuffer.on(device), DeviceBuffer(device.prepare())
    theirs.fill(1)
    for token in range(max(1, theirs.made.token - _ROUNDS), theirs.made.token + _ROUNDS):
        if token != own.made.token:
            for request in (own.reading(token), own.writing(token)):
                refused(partial(own.held.execute, request), INVALID, what=f"token {token}")
    theirs.require_values(1)
