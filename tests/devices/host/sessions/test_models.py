"""Cost of a session's models the second time, and what of them is kept."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Bytes
from nnhal.codec import model_to_wire
from nnhal.descriptor import Descriptor
from nnhal.memory import create_ashmem, create_read_only, map_file, mapped_regions, open_pool
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Supported, Unsupported
from nnhal.types import Ashmem, DataLocation, Memory, Model, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.v1 import model_pb2
from nnhal.validation import validate_model
from nnhal_devices.backend import Backend
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions, PrepareOptions, Workload
from nnhal_devices.host.sessions import models
from nnhal_devices.host.sessions.client_session import ClientSession
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_devices.host.sessions.models import MAX_BYTES, MAX_MODELS
from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.link_server import Session
from tests.support.additions import addition_model
from tests.support.models import Recipe
from tests.support.refusals import INVALID, refusal


class Choosy:
    """cpu_ref, which takes a model only if its constants are below 100, and counts how often it is asked."""

    name = "choosy"

    def __init__(self) -> None:
        self.asked = 0
        self._reference = reference = CpuRef(DriverOptions())
        self.version, self.type, self.capabilities = reference.version, reference.type, reference.capabilities
        self.memory, self.modelled_timing = reference.memory, reference.modelled_timing
        self.extensions, self.number_of_cache_files = reference.extensions, reference.number_of_cache_files
        self.backend = reference.backend

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        self.asked += 1
        largest = max((float(np.max(value)) for value in model.constants[0].values()), default=0.0)
        answer = SUPPORTED if largest < 100 else Unsupported("CONSTANT", str(largest), "below 100")
        return [answer] * len(model.model.main.operations)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        return self._reference.prepare(model, options)


@pytest.fixture
def driver() -> Choosy:
    return Choosy()


@pytest.fixture
def device(driver: Choosy) -> HostedDevice:
    return HostedDevice(driver, DeviceSettings())


@pytest.fixture
def session() -> Iterator[Session]:
    opened = Session(SessionLimits(), os.getpid(), os.getuid())
    yield opened
    opened.close()


@pytest.fixture
def client(session: Session) -> ClientSession:
    return ClientSession(session)


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    found: list[Model] = []

    def validate(model: Model) -> int:
        found.append(model)
        return validate_model(model)

    monkeypatch.setattr(models, "validate_model", validate)
    return found


def model_with(memory: Memory) -> Model:
    """Adds four floats from the beginning of a pool to its input."""
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    given, added, none = recipe.input(code, (4,)), recipe.constant(code, np.zeros(4)), *recipe.integers(0)
    model = recipe.build(recipe.operation(OperationType.ADD, [given, added, none], Operand(code, (4,)))).model
    operands = list(model.main.operands)
    location = DataLocation(0, 0, 16)
    operands[added] = replace(operands[added], lifetime=OperandLifeTime.CONSTANT_POOL, location=location)
    return replace(model, main=replace(model.main, operands=tuple(operands)), pools=(memory,))


def sent(model: Model, session: Session) -> model_pb2.Model:
    return model_to_wire(model, lambda descriptor: session.descriptors.put([descriptor])[0])


def constants(*values: float) -> Bytes:
    return np.array(values, np.float32).view(np.uint8)


def read_only(*values: float) -> Ashmem:
    """A pool of floats that nobody can change."""
    return create_read_only([(0, constants(*values))], 4 * len(values))


def test_a_model_is_validated_and_the_driver_asked_once_for_all_calls(
    device: HostedDevice, driver: Choosy, client: ClientSession, session: Session, validated: list[Model]
) -> None:
    message = sent(model_with(read_only(1, 2, 3, 4)), session)
    assert device.assess(client.models.receive(message)).support == (SUPPORTED,)
    assert device.supported_operations(client.models.receive(message)) == [True]
    assert device.optimize(client.models.receive(message)).untouched == (0,)
    prepared = device.launch(client.models.receive(message), Preparation(), client)()
    assert (len(validated), driver.asked, len(client.models)) == (1, 1, 1)
    (added,) = (value for value in prepared.model.constants[0].values() if value.shape == (4,))
    assert added.tolist() == [1, 2, 3, 4]


def test_a_model_without_pools_is_asked_for_once(
    device: HostedDevice, driver: Choosy, client: ClientSession, session: Session, validated: list[Model]
) -> None:
    for _ in range(3):
        device.assess(client.models.receive(sent(addition_model(), session)))
    device.assess(client.models.receive(sent(addition_model(operations=2), session)))
    assert (len(validated), driver.asked) == (2, 2)


@pytest.mark.parametrize("kind", ["ashmem", "file"])
def test_a_constant_that_has_changed_in_its_pool_is_seen_by_the_next_call(
    device: HostedDevice, driver: Choosy, client: ClientSession, session: Session, validated: list[Model], kind: str
) -> None:
    ashmem = create_ashmem(16)
    memory = ashmem if kind == "ashmem" else map_file(ashmem.descriptor, 16)
    pool = open_pool(memory, writable=True)
    pool.write(0, constants(1, 2, 3, 4))
    message = sent(model_with(memory), session)
    assert device.supported_operations(client.models.receive(message)) == [True]
    pool.write(0, constants(1, 200, 3, 4))
    (answer,) = device.assess(client.models.receive(message)).support
    assert answer == Unsupported("CONSTANT", "200.0", "below 100")
    refusal(lambda: device.optimize(client.models.receive(message)), INVALID, "CONSTANT: got 200.0, allowed below 100")
    refusal(device.launch(client.models.receive(message), Preparation(), client), INVALID, "got 200.0")
    pool.write(0, constants(5, 6, 7, 8))
    prepared = device.launch(client.models.receive(message), Preparation(), client)()
    (added,) = (value for value in prepared.model.constants[0].values() if value.shape == (4,))
    assert added.tolist() == [5, 6, 7, 8]
    assert (len(validated), driver.asked) == (1, 5)


def test_an_equal_model_over_another_pool_is_another_model(
    device: HostedDevice, driver: Choosy, client: ClientSession, session: Session
) -> None:
    for largest, expected in ((4, True), (400, False)):
        message = sent(model_with(read_only(1, 2, 3, largest)), session)
        assert device.supported_operations(client.models.receive(message)) == [expected]
    assert driver.asked == 2


def test_the_pools_of_a_known_model_are_checked_in_every_call(client: ClientSession, session: Session) -> None:
    descriptor = create_ashmem(16).descriptor
    number, gone = session.descriptors.put([descriptor, descriptor.duplicate()])
    numbers = iter([number, gone])
    first, second = (model_to_wire(model_with(map_file(descriptor, 16)), lambda _: next(numbers)) for _ in range(2))
    client.models.receive(first)
    client.models.receive(second)
    session.descriptors.drop([gone])
    refusal(lambda: client.models.receive(second), INVALID, f"descriptor {gone} was not put on this link")
    client.models.receive(first)


def test_a_file_that_has_been_truncated_is_refused(client: ClientSession, session: Session) -> None:
    descriptor = Descriptor(os.memfd_create("test"))
    os.ftruncate(descriptor.fileno(), 16)
    message = sent(model_with(map_file(descriptor, 16)), session)
    client.models.receive(message)
    os.ftruncate(descriptor.fileno(), 8)
    refusal(lambda: client.models.receive(message), INVALID, "pool 0 of the model needs 16 bytes")


def test_nothing_is_mapped_or_open_for_a_model_that_is_kept(
    device: HostedDevice, client: ClientSession, session: Session
) -> None:
    memory = read_only(1, 2, 3, 4)
    message = sent(model_with(memory), session)
    gc.collect()
    mapped, descriptor = mapped_regions(), weakref.ref(memory.descriptor)
    device.assess(client.models.receive(message))
    gc.collect()
    assert (len(client.models), mapped_regions()) == (1, mapped)
    session.descriptors.drop([message.pools[0].ashmem.descriptor_id])
    del memory
    assert descriptor() is None


def test_nothing_is_left_when_the_session_ends(device: HostedDevice, client: ClientSession, session: Session) -> None:
    message = sent(addition_model(), session)
    graph = client.models.receive(message).model.main
    assert any(isinstance(holder, Model) for holder in gc.get_referrers(graph))
    session.close()
    assert not any(isinstance(holder, Model) for holder in gc.get_referrers(graph))
    client.models.receive(message)
    assert len(client.models) == 0


def test_so_many_models_are_kept_and_the_least_recently_used_goes(
    client: ClientSession, session: Session, validated: list[Model]
) -> None:
    messages = [sent(addition_model(number), session) for number in range(1, MAX_MODELS + 2)]
    for message in messages[:-1]:
        client.models.receive(message)
    client.models.receive(messages[0])
    client.models.receive(messages[-1])
    assert (len(client.models), len(validated)) == (MAX_MODELS, MAX_MODELS + 1)
    client.models.receive(messages[0])
    assert len(validated) == MAX_MODELS + 1
    client.models.receive(messages[1])
    assert (len(client.models), len(validated)) == (MAX_MODELS, MAX_MODELS + 2)


def test_so_many_bytes_are_kept_and_no_more(client: ClientSession, session: Session, validated: list[Model]) -> None:
    def large(number: int, size: int) -> model_pb2.Model:
        return sent(replace(addition_model(number), operand_values=bytes(size)), session)

    third = [large(number, MAX_BYTES // 3) for number in (1, 2, 3)]
    for message in third:
        client.models.receive(message)
    assert len(client.models) == 2
    client.models.receive(third[1])
    assert len(validated) == 3
    for _ in range(2):
        client.models.receive(large(4, MAX_BYTES))
    assert (len(client.models), len(validated)) == (2, 5)


def test_an_invalid_model_is_refused_each_time(client: ClientSession, session: Session) -> None:
    model = addition_model()
    message = sent(replace(model, main=replace(model.main, output_indexes=())), session)
    for _ in range(2):
        refusal(lambda: client.models.receive(message), INVALID, "not in the output list")
    assert len(client.models) == 0


def test_a_cost_model_that_fails_takes_nothing_from_the_other_answers(
    device: HostedDevice, driver: Choosy, client: ClientSession, session: Session
) -> None:
    def broken(model: ResolvedModel) -> Sequence[float]:
        raise ZeroDivisionError

    message = sent(addition_model(operations=2), session)
    assert len(device.assess(client.models.receive(message)).operation_ns) == 2
    driver.backend = Backend(broken)
    assessment = device.assess(client.models.receive(message))
    assert all(isinstance(answer, Supported) for answer in assessment.support)
    assert assessment.operation_ns == ()


def tiled(memory: Memory) -> Model:
    """Repeats its two floats as often as the beginning of a pool says, to six floats."""
    recipe, code = Recipe(), OperandType.TENSOR_FLOAT32
    inputs = [recipe.input(code, (2,)), recipe.constant(OperandType.TENSOR_INT32, [3])]
    model = recipe.build(recipe.operation(OperationType.TILE, inputs, Operand(code, (6,)))).model
    operands = list(model.main.operands)
    operands[1] = replace(operands[1], lifetime=OperandLifeTime.CONSTANT_POOL, location=DataLocation(0, 0, 4))
    return replace(model, main=replace(model.main, operands=tuple(operands)), pools=(memory,))


def test_a_constant_that_contradicts_the_dimensions_is_refused_by_every_call(
    device: HostedDevice, client: ClientSession, session: Session
) -> None:
    memory = create_ashmem(4)
    pool = open_pool(memory, writable=True)
    message = sent(tiled(memory), session)
    for times in (3, 4, 3, -1):
        pool.write(0, np.array([times], np.int32).view(np.uint8))
        if times == 3:
            assert device.supported_operations(client.models.receive(message)) == [True]
        else:
            refusal(lambda: client.models.receive(message), INVALID, r"operation 0 \(TILE\): ")
