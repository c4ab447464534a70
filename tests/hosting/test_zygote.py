"""Devices that a zygote forks: they are as those that are started alone, whatever becomes of the zygote."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_hosting.supervision import Child, StartError, ended_in_words
from nnhal_hosting.zygote import Zygote, arguments_span
from tests.support.waiting import wait_until

MODULES = ["nnhal_devices.host.process", "nnhal_devices.null.driver", "no_such_module"]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with closing(Zygote(MODULES)) as started:
        yield started


@contextmanager
def device(directory: Path, zygote: Zygote | None, *options: str) -> Iterator[Child]:
    child = Child("nnhal_devices", ["null", "--endpoint", str(directory), *options], zygote=zygote)
    try:
        child.wait_until_ready()
        yield child
    finally:
        child.stop()


def parent_of(child: Child) -> psutil.Process:
    found = psutil.Process(child.pid).parent()
    assert found is not None
    return found


def answers(directory: Path) -> bool:
    with closing(RemoteDevice(Endpoint(directory), "test")) as remote:
        return bool(remote.identity(10).version)


def test_a_forked_device_looks_like_one_that_was_started_alone(zygote: Zygote, short_path: Path) -> None:
    with device(short_path / "a", None) as alone, device(short_path / "b", zygote) as forked:
        assert parent_of(forked).pid != parent_of(alone).pid == os.getpid()
        one, other = psutil.Process(alone.pid), psutil.Process(forked.pid)
        for process, child in ((one, alone), (other, forked)):
            words = [word for word in process.cmdline() if word]
            assert words[:-1] == [*child.command, "--supervisor"]
        assert other.name() == one.name()
        assert other.cwd() == one.cwd()
        assert os.getpgid(other.pid) == os.getpgid(one.pid)
        for kind in (psutil.RLIMIT_NOFILE, psutil.RLIMIT_CORE, psutil.RLIMIT_AS):
            assert other.rlimit(kind) == one.rlimit(kind)
        wait_until(  # processes open some for a moment, as when they ask their own listeners
            lambda: kinds_of_descriptors(forked.pid) == kinds_of_descriptors(alone.pid),
            "both have the same descriptors",
        )
        assert answers(short_path / "b")


def kinds_of_descriptors(pid: int) -> list[str]:
    """Return what a process has open: sockets, pipes and so on, without their numbers. Each socket counts once."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            links.append(str(path.readlink()))
    sockets = {link for link in links if link.startswith("socket:")}  # gRPC has its listener once or twice more
    others = [link for link in links if link not in sockets]
    return sorted(link.partition("[")[0].replace(f"/proc/{pid}/", "/proc/self/") for link in (*sockets, *others))


def test_what_it_says_goes_to_its_supervisor(zygote: Zygote, short_path: Path) -> None:
    with device(short_path, zygote, "--log-level", "info") as child:
        wait_until(lambda: "serving" in child.said(), "the device has logged that it serves")


def test_it_gets_the_environment_of_who_asks_for_it(
    zygote: Zygote, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with device(short_path / "before", zygote):
        monkeypatch.setenv("NNHAL_DEVICE_LOG_LEVEL", "info")
    with device(short_path / "after", zygote) as child:
        wait_until(lambda: "serving" in child.said(), "the device has logged that it serves")
    monkeypatch.setenv("NNHAL_DEVICE_WORKERS", "none")
    refused = Child("nnhal_devices", ["null", "--endpoint", str(short_path / "refused")], zygote=zygote)
    with pytest.raises(StartError, match="workers"):
        refused.wait_until_ready()


def test_it_ends_with_its_own_status(zygote: Zygote, short_path: Path) -> None:
    with device(short_path, zygote) as child:
        assert child.stop(60) == 0
    with device(short_path, zygote) as child:
        os.kill(child.pid, signal.SIGSEGV)
        assert ended_in_words(child.process.wait(30)) == "was killed by SIGSEGV"
    with device(short_path, zygote) as child:
        os.kill(child.pid, signal.SIGTERM)
        assert child.process.wait(30) == 0
    refused = Child("nnhal_devices", ["bogus", "--endpoint", str(short_path)], zygote=zygote)
    assert refused.process.wait(30) == 2
    refused.stop()
    assert "no driver is called 'bogus'" in refused.said()


def test_it_ends_with_its_supervisor_and_not_with_its_zygote(short_path: Path) -> None:
    own = Zygote(MODULES)
    with device(short_path, own) as child:
        own.close()
        assert answers(short_path)
        assert child.process.poll() is None
    assert ended_in_words(child.process.wait(30)) == "ended after its zygote, so that nobody knows how"


@pytest.mark.parametrize("end", [psutil.Process.kill, psutil.Process.suspend], ids=["killed", "stopped"])
def test_a_zygote_that_is_gone_costs_nothing_but_time(
    short_path: Path, end: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnhal_hosting.zygote._SECONDS", 5.0)
    with closing(Zygote(MODULES)) as own, device(short_path / "a", own) as first:
        before = parent_of(first)
        assert before.pid != os.getpid(), "the zygote was too slow, and the device was started alone"
        assert callable(end)
        end(before)
        with device(short_path / "b", own) as second:
            assert answers(short_path / "a")
            assert answers(short_path / "b")
            assert not before.is_running()
            assert second.stop(60) == 0


def test_a_zygote_without_threads_forks(zygote: Zygote, short_path: Path) -> None:
    with device(short_path, zygote) as child:
        assert parent_of(child).num_threads() == 1


def test_where_the_arguments_are_is_unknown_if_the_kernel_is_emulated() -> None:
    start, end = arguments_span(Path("/proc/self/stat").read_text())
    assert 0 < start < end
    assert arguments_span(f"56 (cat) R {' '.join('0' * 41)}") == (0, 0)
