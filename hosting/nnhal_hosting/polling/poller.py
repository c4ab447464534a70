"""Threads that take turns at polling channels.

One of them, the leader, waits for all channels. It receives a call, and does its work at once if that is brief: no
other thread wakes, and none competes for the interpreter. Before longer work the leader leaves the polling to another
thread, and does the work itself, so that no call is passed from thread to thread.
(Leader/followers: Schmidt et al., Pattern-Oriented Software Architecture, volume 2.)

A thread that has done long work for a channel attends to that channel alone for a while, which is to wait in receiving:
while such calls follow one another, nothing is handed on. So does a thread that has had many brief calls in a row from
one channel, until another channel is served: then one thread serves both, since two would compete.

Work that was expected to be brief may take long. The watch, a thread that looks now and then while calls come, notices
it and has another thread lead.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from functools import partial

from nnhal.link import Channel
from nnhal.threads import LastingThread
from nnhal_hosting.logs import get_logger
from nnhal_hosting.polling.served_channel import Ended, Exchange, ServedChannel
from nnhal_hosting.polling.work import Work
from nnhal_hosting.threads import take_short_turns

_MAX_EVENTS = 32
"""Channels that have a turn before the next wait."""
_ROW = 64
"""Brief calls in a row after which a channel is attended to: to hand on the polling costs as much as some ten calls."""
_MAX_SPARE = 2
"""Threads that may wait to lead."""
_LOOK_SECONDS = 0.005
"""How often the watch looks: work that was expected to be brief delays other channels for twice as long at most."""
_QUIET_LOOKS = 10
"""After so many looks without a call the watch sleeps until the next one."""
_Job = Callable[[], None]
_log = get_logger(__name__)


class _Spare:
    """A thread that waits to lead."""

    def __init__(self) -> None:
        self._called = threading.Lock()
        self._called.acquire()
        self._leads = False

    def wait(self) -> bool:
        """Wait, and return whether to lead; otherwise the thread is to end."""
        self._called.acquire()
        return self._leads

    def call(self, leads: bool) -> None:
        self._leads = leads
        self._called.release()


class LeaderFollowers:
    """The threads of a poller, from its first channel to its last one."""

    def __init__(self, spin_ns: int, dismiss: Callable[[LeaderFollowers], bool]) -> None:
        """``dismiss`` confirms that there are no channels left and will be none. Raises OSError."""
        self.channels: dict[int, ServedChannel] = {}
        """The channels, by their descriptors."""
        self._spin_ns = spin_ns
        self._dismiss = dismiss
        self._lock = threading.Lock()
        self._spares: list[_Spare] = []
        self._over = False
        self._has_no_threads = False
        # What the leader serves, and how often it has begun to serve: while it does not change, the leader is stuck.
        self._serving: ServedChannel | None = None
        self._turns = 0
        # Which channel the last brief calls came from, how many in a row, and whether a thread attends to such a one.
        self._last = -1
        self._row = 0
        self._has_regular = spin_ns > 0  # one who looks all the time needs no attention
        self._watched = threading.Event()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            self._epoll = select.epoll()
        except OSError:
            os.close(self._bell)
            raise
        self._epoll.register(self._bell, select.EPOLLIN)

    def start(self) -> None:
        """Start the first threads. Raises RuntimeError if none can be started; then they are over."""
        try:
            LastingThread(self._watch, "poller-watch").start()
            self._start_thread()
        except RuntimeError:
            self._over = True
            self._close()
            raise

    def add(self, served: ServedChannel) -> None:
        """Serve a channel. Raises OSError; ``end_without_channels`` is to follow then."""
        self.channels[served.number] = served
        try:
            self._register(served)
        except OSError:
            del self.channels[served.number]
            raise

    def end_without_channels(self) -> None:
        if self.channels or not self._dismiss(self):
            return
        with self._lock:
            self._over = True
            os.eventfd_write(self._bell, 1)
        for spare in self._spares:
            spare.call(leads=False)
        self._watched.set()

    def _start_thread(self) -> None:
        LastingThread(self._run, "poller").start()

    def _run(self) -> None:
        take_short_turns()
        while job := self._lead():
            _do(job)
            del job  # what it refers to is not kept by a thread that waits
            spare = _Spare()
            with self._lock:
                if self._over or len(self._spares) == _MAX_SPARE:
                    return
                self._spares.append(spare)
            if not spare.wait():
                return

    def _lead(self) -> _Job | None:
        """Serve channels until there is something long to do, and return it: another thread leads by then.

        Returns None at the end.
        """
        while not self._over:
            for number, _ in self._wait():
                served = self.channels.get(number)
                if served is not None and (job := self._serve(served)):
                    return job
        self._close()
        return None

    def _wait(self) -> list[tuple[int, int]]:
        if self._spin_ns:
            until = time.perf_counter_ns() + self._spin_ns
            while time.perf_counter_ns() < until:
                if events := self._epoll.poll(0, _MAX_EVENTS):
                    return events
        return self._epoll.poll(None, _MAX_EVENTS)

    def _serve(self, served: ServedChannel) -> _Job | None:
        """Do one exchange, and what is brief of its work. Return the rest, if another thread leads from now on."""
        self._turns += 1
        self._serving = served
        if not self._watched.is_set():
            self._watched.set()
        job = self._exchange(served)
        with self._lock:
            leads = self._serving is served
            if leads:
                self._serving = None
                if job is None:
                    return None
                with contextlib.suppress(OSError):  # its owner has closed it, so that it has left by itself
                    self._epoll.unregister(served.number)
                leads = not self._call_leader()
        job = job or partial(self._listen, served)
        if not leads:
            return job
        self._has_no_threads = True
        _do(job)
        self._has_no_threads = False
        return None

    def _exchange(self, served: ServedChannel) -> _Job | None:
        """Do one exchange, and its work if that is brief. Return what is to be done while another thread leads."""
        if served.is_sending:
            return partial(self._flush, served)
        work = served.take()
        if served.error is not None:
            return partial(self._end, served)
        if work is not None:
            if not work.is_brief:
                return partial(self._attend if served.in_turn else self._overlap, served, work)
            served.do(work)
            if served.number != self._last:
                self._last, self._row = served.number, 0
            else:
                self._row += 1
                if self._row > _ROW and served.in_turn and not self._has_regular and not served.is_sending:
                    self._last, self._has_regular = -1, True
                    return partial(self._attend_regular, served)
        return partial(self._listen, served) if served.is_sending else None

    def _flush(self, served: ServedChannel) -> None:
        """Send what could not be sent before."""
        served.flush()
        self._listen(served)

    def _overlap(self, served: ServedChannel, work: Work) -> None:
        """Do work while others serve its channel."""
        self._listen(served)
        served.do(work)
        if served.is_sending:
            with self._lock, contextlib.suppress(OSError):  # another thread serves it
                if self.channels.get(served.number) is served:
                    self._epoll.modify(served.number, served.events)

    def _attend(self, served: ServedChannel, work: Work | None) -> None:
        """Do work, and serve the channel alone as long as calls follow one another that are not brief."""
        while work is not None:
            brief = work.is_brief
            served.do(work)
            if brief or served.is_sending or self._has_no_threads:
                break
            work = served.take()
        self._leave(served)

    def _attend_regular(self, served: ServedChannel) -> None:
        """Serve a channel alone as long as calls follow one another, and the leader has none of others."""
        turns = self._turns
        while turns == self._turns and not self._has_no_threads and (work := served.take()) is not None:
            served.do(work)
            if served.is_sending:
                break
        self._has_regular = False
        self._leave(served)

    def _leave(self, served: ServedChannel) -> None:
        """Have the leader serve a channel that was attended to, unless that is to end."""
        if served.error is None:
            self._listen(served)
        else:
            self._end(served)

    def _listen(self, served: ServedChannel) -> None:
        try:
            self._register(served)
        except OSError as error:
            served.fail(error)
            self._end(served)

    def _register(self, served: ServedChannel) -> None:
        with self._lock:
            self._epoll.register(served.number, served.events)

    def _end(self, served: ServedChannel) -> None:
        del self.channels[served.number]
        self.end_without_channels()
        served.end()

    def _close(self) -> None:
        with self._lock:
            self._epoll.close()
            os.close(self._bell)

    def _call_leader(self) -> bool:
        """Have another thread lead; return False if there is none. The lock is held."""
        if self._spares:
            self._spares.pop().call(leads=True)
            return True
        try:
            self._start_thread()
        except RuntimeError:  # all channels wait until the work is done
            return False
        return True

    def _watch(self) -> None:
        """Have another thread lead if the leader is stuck."""
        quiet = 0
        while not self._over:
            turn = self._turns
            time.sleep(_LOOK_SECONDS)
            if turn != self._turns:
                quiet = 0
            elif self._serving is not None:
                self._relieve(turn)
            elif (quiet := quiet + 1) > _QUIET_LOOKS:
                quiet = 0
                self._watched.clear()
                if turn == self._turns and not self._over:
                    self._watched.wait()

    def _relieve(self, turn: int) -> None:
        with self._lock:
            served = self._serving
            if served is None or turn != self._turns:
                return
            # Before another thread leads: it must not serve the same channel, and what it serves must not be forgotten.
            with contextlib.suppress(OSError):  # its owner has closed it, so that it has left by itself
                self._epoll.unregister(served.number)
            self._serving = None
            if not self._call_leader():
                self._serving = served
                with contextlib.suppress(OSError):
                    self._epoll.register(served.number, served.events)


def _do(job: _Job) -> None:
    """Do something for one channel. If it fails, no other is to notice: who leads meanwhile must stay the only one."""
    try:
        job()
    except Exception:
        _log.exception("a channel was not served to its end")


class Poller:
    """Serves channels. It has threads and descriptors while there are any. Safe to use from several threads."""

    def __init__(self, spin_ns: int = 0) -> None:
        """``spin_ns`` is how long to look for the next call after a call, before a thread sleeps.

        It is 0 if the process may use one processor only: whoever looks keeps the caller from running.
        """
        self._spin_ns = spin_ns if len(os.sched_getaffinity(0)) > 1 else 0
        self._lock = threading.Lock()
        self._threads: LeaderFollowers | None = None

    def add(self, channel: Channel, exchange: Exchange, ended: Ended, in_turn: bool = False) -> None:
        """Call ``exchange`` when the channel can be read, in one thread at a time, and do the work that results.

        Further exchanges go on while that work is done, unless they are ``in_turn``. What exchange or work raises ends
        the channel: ``ended`` is called once with it, and is to close the channel; no other channel waits for that. A
        client that does not read its answers is not served until it does.

        Raises OSError or RuntimeError if there is no descriptor or no thread.
        """
        if channel.fileno() < 0:
            raise OSError("the channel is closed")
        channel.defer_sends()
        served = ServedChannel(channel, exchange, ended, in_turn)
        with self._lock:
            threads = self._threads
            if threads is None:
                threads = LeaderFollowers(self._spin_ns, self._dismiss)
                threads.start()
                self._threads = threads
            try:
                threads.add(served)
                return
            except OSError as error:
                failure = error
        threads.end_without_channels()
        raise failure

    def _dismiss(self, threads: LeaderFollowers) -> bool:
        """Forget threads that have no channels, and return whether that is so."""
        with self._lock:
            if threads.channels or self._threads is not threads:
                return False
            self._threads = None
            return True
