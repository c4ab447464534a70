"""Run the fuzzer: all targets in turn, for ever shorter or longer. See docs/reference/threats.md.

    python -m tests.fuzz --minutes 2           the plain engine, which needs nothing but this project
    python -m tests.fuzz --hours 8 --guided    atheris, which looks for inputs that reach new code
    python -m tests.fuzz --minutes 5 onnx      one target

State is kept in .fuzz: where each target goes on, its counts, what atheris has found to reach new code, and findings.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.plain import COUNTS, keep
from tests.fuzz.target import CORPUS, MOST_INPUT_BYTES
from tests.fuzz.targets import LIVE, NAMES, target

_ROUND_SECONDS = 120.0
"""How long a target has its turn at most."""
_LEAST_SECONDS = 1.0
"""A turn, if the others and their starts took all the time."""
_START_SECONDS = 120.0
_EXECUTED = re.compile(r"number_of_executed_units: (\d+)")


class State:
    """State that is kept from one run of the fuzzer to the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "counts.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.counts: dict[str, dict[str, int]] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def folder(self, *names: str) -> Path:
        found = self._folder.joinpath(*names)
        found.mkdir(parents=True, exist_ok=True)
        return found

    def add(self, name: str, **more: int) -> None:
        counts = self.counts.setdefault(name, {})
        for what, number in more.items():
            counts[what] = counts.get(what, 0) + number
        self._file.write_text(json.dumps(self.counts, indent=1))


def plain_turn(name: str, seconds: float, state: State) -> None:
    """Give a target its turn with the plain engine. A process that ends by itself is a finding, too."""
    folder, first = state.folder("findings"), state.counts.get(name, {}).get("plain", 0)
    command = [sys.executable, "-m", "tests.fuzz.plain", name, str(first), str(seconds), str(folder)]
    (folder / "counts").write_bytes(COUNTS.pack(first, 0, 0))
    try:
        code = subprocess.run(command, timeout=seconds + _START_SECONDS + 120).returncode
    except subprocess.TimeoutExpired:
        code = -1
    number, taken, findings = COUNTS.unpack((folder / "counts").read_bytes())
    if code not in (0, 1):
        from tests.fuzz.plain import input_of

        found = target(name)
        data = input_of(found, list(found.corpus()), number)
        keep(folder, f"{name}-{number}", data, f"{name} ended its process with {code}")
        number, findings = number + 1, findings + 1
    state.add(name, plain=number - first, taken=taken, findings=findings)


def guided_turn(name: str, seconds: float, state: State) -> None:
    corpus, findings = state.folder("corpus", name), state.folder("findings")
    for number, seed in enumerate(target(name).corpus()):
        (corpus / f"seed-{number}").write_bytes(seed)
    before = set(findings.iterdir())
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(corpus)]
    limits = [f"-max_total_time={int(seconds)}", f"-max_len={MOST_INPUT_BYTES}", "-timeout=60", "-rss_limit_mb=4096"]
    output = ["-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={findings}/{name}-"]
    done = subprocess.run([*command, *limits, *output], stderr=subprocess.PIPE, text=True)
    executed = _EXECUTED.search(done.stderr)
    found = set(findings.iterdir()) - before
    if found or executed is None:
        print(done.stderr, file=sys.stderr)
    state.add(name, guided=int(executed[1]) if executed else 0, findings=len(found))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", help=f"all if none is named: {', '.join(NAMES)}")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--guided", action="store_true", help="use atheris, which must be installed")
    parser.add_argument("--state", type=Path, default=Path(".fuzz"))
    given = parser.parse_args()
    names, seconds = given.targets or list(NAMES), given.minutes * 60 + given.hours * 3600
    state, end = State(given.state), time.monotonic() + seconds
    before = sum(counts.get("findings", 0) for counts in state.counts.values())
    in_rounds = seconds >= _ROUND_SECONDS * len(names)
    queue = list(names)
    while queue and ((left := end - time.monotonic()) > 0 or not in_rounds):
        turn = guided_turn if given.guided and queue[0] not in LIVE else plain_turn
        turn(queue[0], min(_ROUND_SECONDS, left) if in_rounds else max(left / len(queue), _LEAST_SECONDS), state)
        queue = [*queue[1:], queue[0]] if in_rounds else queue[1:]
    for name in names:
        print(f"{name:16}", ", ".join(f"{number} {what}" for what, number in state.counts.get(name, {}).items()))
    findings = sum(counts.get("findings", 0) for counts in state.counts.values()) - before
    inputs = sum(counts.get("plain", 0) + counts.get("guided", 0) for counts in state.counts.values())
    print(f"{inputs} inputs in all, {findings} findings in this run, of {CORPUS.parent.name} in {given.state}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
