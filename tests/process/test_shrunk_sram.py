"""Faults on purpose: an SRAM that shrinks while the device runs, on each device that has one."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.remote import RemoteDevice
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import ErrorStatus, Model, Request
from nnhal.types.layout import byte_size
from nnhal_conformance.ways import LAUNCHES, RUNS
from tests.support.additions import argument
from tests.support.agreement import random
from tests.support.calls import held_by, session_with
from tests.support.faulty import FaultyDevice, fault, faulty_device
from tests.support.mlip_hal import mlip_examples
from tests.support.npu import SAME, convolution
from tests.support.refusals import INVALID, refusal

pytestmark = pytest.mark.slow
LACK = ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT
WAYS = [RUNS[name] for name in ("request", "burst-reusable", "burst")]


class Case(NamedTuple):
    """A model, and two sizes of SRAM."""

    model: Model
    enough: int | str
    """If the model is compiled for that; it takes more if there is more."""
    too_little: int


def _sized(resolved: ResolvedModel) -> Model:
    main = resolved.model.main
    known = propagate_dimensions(resolved)
    operands = tuple(replace(operand, dimensions=known[index]) for index, operand in enumerate(main.operands))
    return replace(resolved.model, main=replace(main, operands=operands))


_CONVOLUTION = _sized(convolution(Q8A, (4, 3, 3, 2), [SAME, 1, 1, 0], (1, 32, 32, 2)))
CASES = {
    "ethos_u": Case(_CONVOLUTION, 4_300, 1_000),
    "ethos_n": Case(_CONVOLUTION, "2KiB", 100),
    "mlip": Case(_sized(mlip_examples(Q8AS)["CONV_2D VALID"]), "1MiB", 1_000),
}


class Memory:
    """An input and an output of a model in ashmem."""

    def __init__(self, model: Model) -> None:
        given, made = (model.main.operands[index] for index in (*model.main.input_indexes, *model.main.output_indexes))
        size = byte_size(given.type, given.dimensions)
        self._start, self._length = -(-size // 64) * 64, byte_size(made.type, made.dimensions)
        memory = create_ashmem(self._start + self._length)
        self.request = Request((argument(0, size),), (argument(self._start, self._length),), (memory,))
        self._pool = open_pool(memory, writable=True)
        self._pool.write(0, random(Q8A, (size,)))

    def forget(self) -> None:
        self._pool.write(self._start, np.zeros(self._length, np.uint8))

    def output(self) -> Array:
        return self._pool.read(self._start, self._length).copy()


@pytest.fixture(scope="module", params=CASES)
def npu(request: pytest.FixtureRequest) -> Iterator[FaultyDevice]:
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as name,
        faulty_device(Path(name), driver=request.param) as device,
    ):
        yield device


@pytest.fixture
def case(npu: FaultyDevice) -> Iterator[Case]:
    """Return what is tried on it; afterwards its SRAM is whole again."""
    yield CASES[npu.endpoint.directory.name]
    npu.control.clear()


def test_prepared_models_that_no_longer_fit_fail_until_there_is_room_again(npu: FaultyDevice, case: Case) -> None:
    with session_with(npu.endpoint) as session:
        held, memory = held_by(session, case.model), Memory(case.model)
        for way in WAYS:
            execute = way(held, memory.request)
            npu.control.set(fault("shrunk_sram", "execute", name="less", bytes=case.enough))
            refusal(
                execute,
                LACK,
                r"injected fault 'less': a run takes [\d,]+ bytes of SRAM, there are",
            )
            npu.control.clear()
            execute()
        npu.control.set(fault("shrunk_sram", bytes=case.enough))
        for launch in LAUNCHES.values():
            refusal(launch(held, memory.request), LACK, "injected fault")
        assert npu.control.faults()[0].injected == len(LAUNCHES)


def test_a_model_is_compiled_for_what_is_left(npu: FaultyDevice, case: Case) -> None:
    with RemoteDevice(npu.endpoint) as remote:
        before, memory = remote.prepare_model(case.model), Memory(case.model)
        before.execute(memory.request)
        expected = memory.output()
        npu.control.set(fault("shrunk_sram", "*", bytes=case.enough))
        memory.forget()
        remote.prepare_model(case.model).execute(memory.request)
        np.testing.assert_array_equal(memory.output(), expected)
        assert remote.optimize_subgraph(case.model).failed == ()
        assert npu.control.faults()[0].injected == 2  # what was compiled, and not the execution that fits
        refusal(lambda: before.execute(memory.request), LACK)


def test_a_model_that_does_not_fit_is_not_prepared(npu: FaultyDevice, case: Case) -> None:
    with RemoteDevice(npu.endpoint) as remote:
        npu.control.set(
            fault("shrunk_sram", "*", bytes=case.enough), fault("shrunk_sram", "*", name="least", bytes=case.too_little)
        )
        refusal(lambda: remote.prepare_model(case.model), LACK, r"injected fault 'least': .*bytes")
        assert remote.supported_operations(case.model) == [True]
        (failure,) = remote.optimize_subgraph(case.model).failed
        assert re.search(r"there are [\d,]+ (of SRAM )?\(injected fault 'least'\)", failure.reason)
        npu.control.clear()
        remote.prepare_model(case.model)


def test_an_sram_does_not_grow(npu: FaultyDevice, case: Case) -> None:
    del case
    name = npu.endpoint.directory.name
    refusal(
        lambda: npu.control.set(fault("shrunk_sram", "*", name="more", bytes="1GiB")),
        INVALID,
        rf"fault 'more' cannot be on '{name}': bytes: got 1,073,741,824, expected fewer than the [\d,]+ of {name}",
    )
    assert npu.control.faults() == []


def test_a_device_without_an_sram_has_none_that_shrinks(faulty: FaultyDevice) -> None:
    refusal(
        lambda: faulty.control.set(fault("shrunk_sram", "*", name="less", bytes=5)),
        INVALID,
        "fault 'less' cannot be on 'cpu_ref': cpu_ref has no SRAM of its own",
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bytes": -1}, "fault 1, bytes: got -1, expected"),
        ({"bytes": "much"}, "fault 1, bytes: got much, expected a number of bytes, or a text such as 240KiB"),
        ({"bytes": True}, "fault 1, bytes: got True, expected a number of bytes"),
        ({}, "fault 1, bytes: is missing"),
        ({"bytes": 5, "method": "Buffer.CopyTo"}, "expected one of Backend.OptimizeSubgraph"),
    ],
)
def test_sizes_are_checked(faulty: FaultyDevice, given: dict[str, object], words: str) -> None:
    with pytest.raises(HalError, match=words):
        faulty.control.set({"what": "shrunk_sram", **given})
