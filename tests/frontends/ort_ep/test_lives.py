"""Sessions of ONNX Runtime whose processes end, begin and fork, and programs that know nothing of nnhal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnxruntime
import pytest
from typer import BadParameter

import nnhal_ort
from nnhal_ort.command import ort
from nnhal_tools.up import Testbed
from tests.frontends.ort_ep.sessions import DIGITS, answers, assert_same, image, reference, session
from tests.support.waiting import settled, wait_until

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the provider

PACKAGE = Path(nnhal_ort.__file__).parents[1]
SESSIONS = 40
_RESTART_SECONDS = 120.0


def program(testbed: Testbed, text: str, launcher: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NNHAL_FRAMEWORK": str(testbed.framework)}
    command = [*launcher, sys.executable, "-c", textwrap.dedent(text)]
    if not launcher:
        environment["PYTHONPATH"] = str(PACKAGE)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.fixture
def launcher() -> Iterator[list[str]]:
    """The command ``nnhal ort``, as an installed package adds it."""
    with tempfile.TemporaryDirectory() as folder:
        command = Path(folder, "nnhal_ort_command.py")
        found = f"import sys; sys.path.insert(0, {str(PACKAGE)!r})"
        command.write_text(f"{found}\nimport typer\nfrom nnhal_ort.command import ort\ntyper.run(ort)\n")
        yield [sys.executable, str(command), "--"]


@pytest.mark.parametrize("victim", ["cpu_acc", "framework"])
def test_no_answer_is_wrong_when_a_process_is_killed(provider: Testbed, victim: str) -> None:
    made = session(DIGITS, devices="cpu_acc")
    (expected,) = answers(reference(DIGITS), {"image": image()})
    right, wrong, stop = [0], [0], threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                (got,) = answers(made, {"image": image()})
            except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
                stop.wait(0.01)  # until there is something again that can run it
                continue
            (right if np.array_equal(got, expected) else wrong)[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: right[0] > 10, "runs before")
        (pid,) = (process.pid for process in provider.processes if process.name == victim)
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: {p.name: p.pid for p in provider.processes}[victim] not in (None, pid),
            "another process",
            _RESTART_SECONDS,
        )
        before = right[0]
        wait_until(lambda: right[0] > before + 100, "runs afterwards", _RESTART_SECONDS)
    finally:
        stop.set()
        thread.join()
    assert wrong == [0]
    assert_same(made, DIGITS, {"image": image(1)})


def test_sessions_leave_no_descriptors(provider: Testbed) -> None:
    def use() -> None:
        answers(session(DIGITS, devices="cpu_acc"), {"image": image()})

    pids = [os.getpid(), *(process.pid for process in provider.processes)]
    for _ in range(3):
        use()
    before = settled(lambda: [descriptors(pid) for pid in pids])
    for _ in range(SESSIONS):
        use()
    assert settled(lambda: [descriptors(pid) for pid in pids]) == before


def test_a_forked_process_has_a_session_of_its_own(provider: Testbed) -> None:
    done = program(
        provider,
        f"""
        import os, nnhal_ort, onnxruntime, numpy
        nnhal_ort.register()
        session = onnxruntime.InferenceSession({str(DIGITS)!r}, providers=[nnhal_ort.get_ep_name()])
        run = lambda: session.run(None, {{"image": numpy.ones((1, 1, 8, 8), numpy.float32)}})[0].tolist()
        expected = run()
        if (child := os.fork()) == 0:
            os._exit(run() != expected)
        assert os.waitpid(child, 0)[1] == 0
        assert run() == expected
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_may_register_before_there_is_a_framework(provider: Testbed) -> None:
    """A session without one is an error, where ONNX Runtime would run the model on the CPU."""
    done = program(
        provider,
        f"""
        import os, nnhal_ort, onnxruntime
        onnxruntime.set_default_logger_severity(4)
        framework, os.environ["NNHAL_FRAMEWORK"] = os.environ["NNHAL_FRAMEWORK"], "/nowhere"
        nnhal_ort.register()
        make = lambda: onnxruntime.InferenceSession({str(DIGITS)!r}, providers=[nnhal_ort.get_ep_name()])
        try:
            make()
        except ConnectionError as error:
            print(error)
        os.environ["NNHAL_FRAMEWORK"] = framework
        print(make().get_providers()[0])
        """,
    )
    assert done.stdout == "no framework of nnhal has answered in /nowhere\nNnhalExecutionProvider\n", done.stderr


def test_an_older_runtime_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", "1.23.2")
    with pytest.raises(RuntimeError, match=r"ONNX Runtime 1\.24 or later is needed, and this is 1\.23\.2"):
        nnhal_ort.register()


def test_a_program_in_c_runs_it_in_threads(provider: Testbed, tmp_path: Path) -> None:
    made = tmp_path / "app"
    source = Path(__file__).with_name("app.c")
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-o", made, source, "-ldl", "-pthread"], check=True)
    (runtime,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    arguments: list[str | Path] = [runtime, nnhal_ort.get_library_path(), DIGITS, "image", "probabilities", "4", "100"]
    done = subprocess.run([made, *arguments], input=image().tobytes(), capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    (expected,) = answers(reference(DIGITS), {"image": image()})
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32), expected[0])


UNCHANGED = f"""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession({str(DIGITS)!r}, options)
    print([group.ep_name for group in session.get_provider_graph_assignment_info()])
    """


def test_an_unchanged_program_is_launched(provider: Testbed, launcher: list[str]) -> None:
    done = program(provider, UNCHANGED, launcher)
    assert (done.returncode, done.stdout) == (0, "['NnhalExecutionProvider']\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "ignoring"), [(["-I", "app.py"], "-I"), (["-X", "dev", "-sE", "-c", "pass"], "-E"), (["-S"], "-S")]
)
def test_a_program_that_would_not_find_nnhal_is_not_launched(words: list[str], ignoring: str) -> None:
    with pytest.raises(BadParameter, match=f"with {ignoring} Python does not read PYTHONPATH"):
        ort([sys.executable, *words])


@pytest.mark.parametrize("words", [["-W", "-Something"], ["-c", "-I"], ["app.py", "-E"], ["-mapp", "-S"]])
def test_words_of_a_program_are_its_own(words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []

    def execve(*given: Any) -> NoReturn:
        started.append(given[1])
        sys.exit()

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr("nnhal_ort.command.get_library_path", str)
    with pytest.raises(SystemExit):
        ort([sys.executable, *words], tmp_path)
    assert started == [[sys.executable, *words]]


def test_without_a_framework_one_is_started_for_the_program(library: str, launcher: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    environment.pop("NNHAL_FRAMEWORK", None)
    command = [*launcher, sys.executable, "-c", textwrap.dedent(UNCHANGED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "['NnhalExecutionProvider']\n"), done.stderr


def test_a_launched_program_fails_without_a_framework(library: str, launcher: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "NNHAL_FRAMEWORK": str(tmp_path)}
    command = [*launcher, sys.executable, "-c", textwrap.dedent(UNCHANGED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 1
    assert f"no framework of nnhal has answered in {tmp_path}" in done.stderr
