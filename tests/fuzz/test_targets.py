"""The fuzzer: its targets take their seeds and what once failed, and it sees what no reader may do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.mutators.octets import mutate_octets
from tests.fuzz.plain import input_of
from tests.fuzz.target import CORPUS, FindingError, FuzzTarget
from tests.fuzz.targets import LIVE, NAMES, target

_MOST_CORPUS_BYTES = 1 << 20
_FEW = 30
_KEPT = [path for name in NAMES for path in sorted((CORPUS / name).glob("*"))]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LIVE])
def test_the_seeds_of_a_target_are_taken_and_a_few_mutated_ones_taken_or_refused(name: str) -> None:
    found = target(name)
    corpus = list(found.corpus())
    for seed in found.seeds():
        found.read(seed)
    tried = [input_of(found, corpus, number) for number in range(_FEW)]
    assert len(set(tried)) > _FEW // 2
    for each in tried:
        found.warm_up(each)


@pytest.mark.parametrize("path", _KEPT, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed_is_taken_or_refused(path: Path) -> None:
    target(path.parent.name).attempt(path.read_bytes())


def test_the_corpus_is_small_and_belongs_to_the_targets() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(NAMES)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < _MOST_CORPUS_BYTES


def test_an_input_follows_from_its_number() -> None:
    found = target("run_channel")
    corpus = list(found.corpus())
    assert input_of(found, corpus, 5) == input_of(found, corpus, 5)
    assert found.changed(corpus[0], Random(1)) == found.changed(corpus[0], Random(1))


def slow(data: bytes) -> None:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


def greedy(data: bytes) -> None:
    bytearray(b"x") * (200 << 20)


def talkative(data: bytes) -> None:
    raise ValueError("'NoneType' object has no attribute 'name'")


def broken(data: bytes) -> None:
    raise KeyError("name")


@pytest.mark.parametrize(
    ("read", "seconds", "kind", "words"),
    [
        (slow, 0.1, FindingError, "processor time"),
        (greedy, 60.0, FindingError, "MiB for"),
        (talkative, 60.0, FindingError, "not in words"),
        (broken, 60.0, KeyError, "name"),
    ],
)
def test_what_no_reader_may_do_is_a_finding(
    read: Callable[[bytes], None], seconds: float, kind: type[Exception], words: str
) -> None:
    found = FuzzTarget("own", read, (ValueError,), lambda: [b"x"], mutate_octets, cpu_seconds=seconds)
    with pytest.raises(kind, match=words):
        found.attempt(b"x")
