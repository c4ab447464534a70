from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from nnhal.clock import now_ns
from nnhal.descriptor import Descriptor
from nnhal.fence import Fence, FenceError, FenceState, Signal, create_fence, name_fences, wait_for_all

FAR = 2**63 - 1
"""A deadline centuries ahead."""
WAITER = """
import sys
from nnhal.descriptor import Descriptor
from nnhal.fence import Fence, FenceError
fence = Fence(Descriptor(int(sys.argv[1])))
print(fence.state.value, flush=True)
try:
    fence.wait()
except FenceError:
    pass
print(fence.state.value, flush=True)
"""
DEBTOR = """
import sys
print("here", flush=True)
sys.stdin.read()
"""


def fences(count: int) -> tuple[list[Signal], list[Fence]]:
    pairs = [create_fence() for _ in range(count)]
    return [signal for signal, _ in pairs], [fence for _, fence in pairs]


def pair() -> tuple[socket.socket, Fence]:
    ours, theirs = socket.socketpair()
    return ours, Fence(Descriptor(theirs.detach()))


def program(text: str, descriptor: int) -> subprocess.Popen[bytes]:
    """Run Python code in a process that inherits a descriptor and gets its number."""
    return subprocess.Popen(
        [sys.executable, "-c", text, str(descriptor)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[descriptor],
    )


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


Waiting = Callable[..., Future[None]]


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    with ThreadPoolExecutor() as pool:

        def start(waited: list[Fence], deadline_ns: int = -1, cancelled: int | None = None) -> Future[None]:
            return pool.submit(wait_for_all, waited, deadline_ns, cancelled)

        yield start


def test_a_fence_is_pending_until_it_signals_and_then_signalled_for_ever() -> None:
    signal, fence = create_fence()
    assert {fence.state} == {FenceState.PENDING}
    with pytest.raises(TimeoutError, match="1 of 1 fences had not signalled in time"):
        fence.wait(timeout=0)
    signal.send()
    for _ in range(3):
        fence.wait()
        fence.wait(timeout=0)
        assert {fence.state} == {FenceState.SIGNALLED}


def failed() -> Fence:
    signal, fence = create_fence()
    signal.fail()
    return fence


def forgotten() -> Fence:
    return create_fence()[1]


@pytest.mark.parametrize("make", [failed, forgotten])
def test_a_fence_that_can_no_longer_be_signalled_stays_in_error(make: Callable[[], Fence]) -> None:
    fence = make()
    for _ in range(3):
        assert fence.state is FenceState.ERROR
        with pytest.raises(FenceError, match="a fence is in error"):
            fence.wait(timeout=0)


def test_what_was_said_of_a_fence_first_stands() -> None:
    (good, bad), (signalled, wrong) = fences(2)
    good.send()
    bad.fail()
    for _ in range(2):
        good.fail()
        bad.send()
    good.send()
    assert (signalled.state, wrong.state) == (FenceState.SIGNALLED, FenceState.ERROR)


def test_signalling_a_fence_without_holders_is_harmless() -> None:
    signal, fence = create_fence()
    fence.descriptor.close()
    signal.send()


def test_waiting_takes_nothing_from_other_waiters() -> None:
    signal, fence = create_fence()
    other = Fence(fence.descriptor.duplicate())
    before = len(list(Path("/proc/self/fd").iterdir()))
    signal.send()
    with ThreadPoolExecutor(8) as pool:
        waits = [pool.submit(waiter.wait) for waiter in (fence, other) * 50]
    assert [wait.exception() for wait in waits] == [None] * 100
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) < before  # the end that signalled it is closed


@pytest.mark.parametrize(
    ("end", "state"), [(Signal.send, FenceState.SIGNALLED), (Signal.fail, FenceState.ERROR)], ids=["sent", "failed"]
)
def test_every_process_that_holds_a_fence_is_told(end: Callable[[Signal], None], state: FenceState) -> None:
    signal, fence = create_fence()
    processes = [program(WAITER, fence.fileno()) for _ in range(2)]
    for process in processes:
        assert line(process) == "pending"
    end(signal)
    for process in processes:
        with process:
            assert line(process) == state.value


@pytest.mark.parametrize("end", [subprocess.Popen.kill, lambda process: process.stdin.close()], ids=["killed", "ended"])
def test_a_process_that_ends_fails_the_fences_that_it_owed(
    end: Callable[[subprocess.Popen[bytes]], None], waiting: Waiting
) -> None:
    ours, fence = pair()
    with program(DEBTOR, ours.fileno()) as process:
        ours.close()
        assert line(process) == "here"
        assert fence.state is FenceState.PENDING
        waiter = waiting([fence])
        end(process)
        with pytest.raises(FenceError, match="a fence is in error"):
            waiter.result()


def test_waiting_ends_when_all_of_several_fences_have_signalled(waiting: Waiting) -> None:
    signals, waited = fences(4)
    waiter = waiting(waited)
    for number, signal in enumerate(reversed(signals)):
        assert not waiter.done()
        with pytest.raises(TimeoutError, match=f"{4 - number} of 4 fences had not signalled"):
            wait_for_all(waited, now_ns())
        signal.send()
    waiter.result()
    wait_for_all(waited, now_ns())
    wait_for_all([])


def test_one_fence_in_error_ends_waiting_though_others_are_pending(waiting: Waiting) -> None:
    signals, waited = fences(3)
    name_fences(waited, [7, 8, 9])
    waiter = waiting(waited)
    signals[0].send()
    signals[1].fail()
    with pytest.raises(FenceError, match="the fence of descriptor 8 is in error"):
        waiter.result()
    with pytest.raises(FenceError, match="the fence of descriptor 8 is in error"):
        wait_for_all(waited, now_ns())  # the error takes precedence over the deadline
    assert waited[2].state is FenceState.PENDING


def test_a_fence_may_be_waited_for_several_times_at_once(waiting: Waiting) -> None:
    signal, fence = create_fence()
    waiter = waiting([fence, fence, Fence(fence.descriptor), Fence(fence.descriptor.duplicate())])
    signal.send()
    waiter.result()


@pytest.mark.parametrize("nanoseconds", [-1, 0, 1, 3_000_000])
def test_waiting_ends_at_the_deadline(nanoseconds: int) -> None:
    signals, waited = fences(2)
    signals[0].send()
    with pytest.raises(TimeoutError, match="1 of 2 fences"):
        wait_for_all(waited, now_ns() + nanoseconds)


@pytest.mark.parametrize("deadline_ns", [-1, FAR])
def test_without_a_deadline_or_with_one_far_away_waiting_goes_on(waiting: Waiting, deadline_ns: int) -> None:
    signal, fence = create_fence()
    waiter = waiting([fence], deadline_ns)
    assert not waiter.done()
    signal.send()
    waiter.result()


def test_a_passed_deadline_matters_only_if_there_is_something_to_wait_for() -> None:
    signal, fence = create_fence()
    signal.send()
    wait_for_all([fence], 0)


def test_waiting_ends_when_it_is_cancelled(waiting: Waiting) -> None:
    signals, waited = fences(2)
    cancelled = os.eventfd(0)
    waiter = waiting(waited, FAR, cancelled)
    signals[0].send()
    assert not waiter.done()
    os.eventfd_write(cancelled, 1)
    with pytest.raises(FenceError, match="waiting was cancelled"):
        waiter.result()
    with pytest.raises(FenceError, match="waiting was cancelled"):
        wait_for_all(waited, FAR, cancelled)
    signals[1].send()
    wait_for_all(waited, FAR, cancelled)
    os.close(cancelled)


def test_a_cancelled_fence_is_in_error_in_every_process_that_holds_it() -> None:
    signal, fence = create_fence()
    with program(WAITER, fence.fileno()) as process:
        assert line(process) == "pending"
        fence.cancel()
        assert line(process) == "error"
    signal.send()
    fence.cancel()
    assert fence.state is FenceState.ERROR
    with pytest.raises(FenceError, match="a fence is in error"):
        fence.wait()


def test_a_fence_that_has_signalled_cannot_be_cancelled() -> None:
    signal, fence = create_fence()
    signal.send()
    fence.cancel()
    fence.wait()
    fence.wait_for_end()
    assert fence.state is FenceState.SIGNALLED


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("end", [Signal.send, Signal.fail])
def test_the_end_can_be_waited_for_whatever_the_state_of_the_fence(
    end: Callable[[Signal], None], cancelled: bool
) -> None:
    signal, fence = create_fence()
    if cancelled:
        fence.cancel()
    with ThreadPoolExecutor() as pool:
        waiter = pool.submit(fence.wait_for_end)
        with pytest.raises(TimeoutError):
            waiter.result(0.05)
        end(signal)
        waiter.result(30)


def test_giving_up_while_another_waits_for_the_end_does_not_end_it() -> None:
    signal, fence = create_fence()
    with ThreadPoolExecutor() as pool:
        waiter = pool.submit(fence.wait_for_end)
        fence.cancel()
        with pytest.raises(TimeoutError):
            waiter.result(0.05)
        signal.fail()
        waiter.result(30)


def memory() -> int:
    return os.memfd_create("test")


def pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


@pytest.mark.parametrize("make", [memory, pipe, lambda: os.eventfd(1), lambda: os.open("/dev/null", os.O_RDONLY)])
def test_a_descriptor_that_is_not_a_socket_is_refused(make: Callable[[], int]) -> None:
    with pytest.raises(ValueError, match="not a socket"):
        Fence(Descriptor(make()))


@pytest.mark.contract("VR-05")
def test_a_descriptor_that_is_closed_or_minus_one_is_no_fence() -> None:
    descriptor = Descriptor(memory())
    descriptor.close()
    for closed in (descriptor, Descriptor(-1)):
        with pytest.raises(ValueError, match="closed"):
            Fence(closed)


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_socket_that_is_not_connected_is_a_fence_in_error(family: socket.AddressFamily) -> None:
    listener, unconnected = socket.socket(family), socket.socket(family)
    listener.bind("" if family == socket.AF_UNIX else ("127.0.0.1", 0))
    listener.listen()
    for connection in (listener, unconnected):
        fence = Fence(Descriptor(connection.detach()))
        assert fence.state is FenceState.ERROR
        with pytest.raises(FenceError):
            fence.wait()
        fence.cancel()
        fence.wait_for_end()


def shut_datagrams() -> socket.socket:
    """Make a socket that wakes its waiters but never has anything to read."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    connection.shutdown(socket.SHUT_RDWR)
    return connection


def test_a_socket_that_only_wakes_its_waiters_ends_the_waiting() -> None:
    fence = Fence(Descriptor(shut_datagrams().detach()))
    assert fence.state is FenceState.PENDING
    with pytest.raises(FenceError, match="does not behave like one"):
        fence.wait()


def test_who_owes_a_fence_learns_that_it_was_cancelled() -> None:
    signal, fence = create_fence()
    seen = [signal.is_cancelled]
    for change in (fence.cancel, signal.fail):
        change()
        seen.append(signal.is_cancelled)
    assert seen == [False, True, False]


def test_a_fence_of_which_no_copy_is_left_is_not_cancelled() -> None:
    signal, fence = create_fence()
    fence.descriptor.close()
    assert not signal.is_cancelled
