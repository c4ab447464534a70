"""Pools: every kind of memory, and memory that contradicts its description."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from nnhal.descriptor import Descriptor
from nnhal.memory import (
    BufferDescription,
    create_ashmem,
    create_blob,
    create_hardware_buffer,
    create_read_only,
    map_file,
)
from nnhal.memory.ashmem import create_sealed
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.types import (
    Ashmem,
    DataLocation,
    HardwareBuffer,
    MappableFile,
    Memory,
    NativeHandle,
    Request,
    RequestArgument,
)
from nnhal.v1 import memory_pb2, request_pb2
from nnhal_conformance.device import Prepared, Subject, supported
from nnhal_conformance.rule import FAILURE, INVALID, NotOfferedError, refused, require, rule
from nnhal_conformance.small_models import SmallModel, SmallRequest
from nnhal_conformance.ways import ALL_RUNS, RunWay, refused_run

GROUP = "pools"
_PAGE = "reference/protocol.md#memory"
_LEAD = 4096 + 128
"""Where a part of a file begins: behind a page, at no multiple of pages."""


def unsealed_file(size: int) -> Descriptor:
    """A file on a disk, or in a tmpfs, which may shrink."""
    with tempfile.TemporaryFile() as made:
        made.truncate(size)
        return Descriptor(os.dup(made.fileno()))


KINDS: dict[str, Callable[[int], Memory]] = {
    "ashmem": create_ashmem,
    "ashmem that is longer than its size": lambda size: Ashmem(create_sealed(size + 8192, "nnhal-check"), size),
    "a part of a file": lambda size: map_file(unsealed_file(_LEAD + size), size, _LEAD),
    "a part of a sealed file": lambda size: map_file(create_sealed(_LEAD + size, "nnhal-check"), size, _LEAD),
    "a hardware buffer of format BLOB": create_blob,
}
"""Creates a pool of each kind, of so many bytes."""


@rule(GROUP, _PAGE, "RE-01", "RE-05", "BU-02", over=ALL_RUNS)
def kinds(device: Subject, way: RunWay) -> None:
    """A request may lie in ashmem, in a part of a file from any offset on, and in a BLOB."""
    held = device.prepare()
    for create in KINDS.values():
        work = held.work(memory=create(SmallRequest.bytes_of(held.small)))
        run = way(held, work.request)
        for seed in range(2):
            work.run(run, seed)


@rule(GROUP, _PAGE)
def offsets(device: Subject) -> None:
    """Arguments need no alignment."""
    held = device.prepare()
    work = held.work(lead=1, step=held.small.bytes + 3)
    work.run(lambda: held.execute(work.request))


@rule(GROUP, _PAGE, "RQ-15", "RQ-17", over=ALL_RUNS)
def shared_and_unused(device: Subject, way: RunWay) -> None:
    """A pool that no argument uses does no harm, and inputs may share a range."""
    held = device.prepare()
    work = held.work()
    request = replace(work.request, pools=(*work.request.pools, create_ashmem(64)))
    work.run(way(held, request))
    work.share_inputs()
    work.run(way(held, work.request))


def _input_request(small: SmallModel, pool: Memory, work: SmallRequest) -> Request:
    """The request with its inputs in another pool, from its begin on."""
    inputs = [RequestArgument(DataLocation(1, n * small.bytes, small.bytes)) for n in range(small.inputs)]
    return Request(tuple(inputs), work.request.outputs, (work.memory, pool))


def read_only_pools(content: bytes) -> dict[str, Memory]:
    """Pools that can only be read."""
    file, raw = unsealed_file(len(content)), np.frombuffer(content, np.uint8)
    os.pwrite(file.fileno(), content, 0)
    read_only = Descriptor(os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | os.O_CLOEXEC))
    return {
        "ashmem that is sealed against writing": create_read_only([(0, raw)], len(content)),
        "a file that is open for reading": map_file(read_only, len(content), writable=False),
        "a file with PROT_READ": MappableFile(file, len(content), mmap.PROT_READ),
    }


@rule(GROUP, _PAGE, "RQ-16", over=ALL_RUNS)
def read_only_inputs(device: Subject, way: RunWay) -> None:
    """Inputs may lie in memory that can only be read: nobody maps it writable."""
    held = device.prepare()
    content = b"".join(value.tobytes() for value in held.small.values(3))
    for pool in read_only_pools(content).values():
        work = held.work()
        work.run(way(held, _input_request(held.small, pool, work)), 3)


@rule(GROUP, _PAGE)
def read_only_constants(device: Subject) -> None:
    """Constants may lie in pools that can only be read, from any offset on."""
    small = device.small
    constant = small.values(5)[-1].tobytes()
    for what, pool in read_only_pools(bytes(64) + constant).items():
        model = small.of_constant(pool, 64)
        if model is None:
            raise NotOfferedError(f"{small.name} has one input, and no constants in pools")
        session = device.session()
        if not all(supported(session, model)):
            raise NotOfferedError(f"{small.name} with a constant is not supported: other devices get such models")
        held = Prepared(session, small, session.prepare(model))
        work = held.work()
        request = replace(work.request, inputs=work.request.inputs[:-1])
        work.fill(5)
        held.execute(request)
        require(not work.is_untouched, f"nothing written with constants in {what}", "values")
        work.require_output()


def _unsealed(size: int) -> Descriptor:
    made = Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(made.fileno(), size)
    return made


def _pipe() -> Descriptor:
    reader, writer = os.pipe()
    os.close(writer)
    return Descriptor(reader)


def _blob(size: int, descriptor: Descriptor | None = None, **changed: int) -> HardwareBuffer:
    """A BLOB with other integers, by their places, or with other memory."""
    good = create_blob(size).handle
    ints = [changed.get(f"i{place}", value) for place, value in enumerate(good.ints)]
    return HardwareBuffer(NativeHandle((descriptor,) if descriptor else good.descriptors, tuple(ints)))


def _again(descriptor: Descriptor, flags: int) -> Descriptor:
    """Open the same file otherwise."""
    return Descriptor(os.open(f"/proc/self/fd/{descriptor.fileno()}", flags | os.O_CLOEXEC))


def _directory() -> Descriptor:
    return Descriptor(os.open("/", os.O_RDONLY | os.O_CLOEXEC))


def bad_pools(size: int) -> dict[str, Memory]:
    """Pools that contradict their description."""
    both = mmap.PROT_READ | mmap.PROT_WRITE
    return {
        "a memfd that may shrink as ashmem": Ashmem(_unsealed(size), size),
        "a file as ashmem": Ashmem(unsealed_file(size), size),
        "a pipe as ashmem": Ashmem(_pipe(), size),
        "a directory as ashmem": Ashmem(_directory(), size),
        "ashmem that is too small": Ashmem(create_sealed(size - 1, "nnhal-check"), size),
        "ashmem of 0 bytes": Ashmem(create_sealed(size, "nnhal-check"), 0),
        "ashmem of -1 bytes": Ashmem(create_sealed(size, "nnhal-check"), -1),
        "ashmem of 2^63 - 1 bytes": Ashmem(create_sealed(size, "nnhal-check"), 2**63 - 1),
        "a pipe as a file": MappableFile(_pipe(), size, both),
        "a directory as a file": MappableFile(_directory(), size, both),
        "a device as a file": MappableFile(Descriptor(os.open("/dev/zero", os.O_RDWR | os.O_CLOEXEC)), size, both),
        "a file that is too short": MappableFile(unsealed_file(size - 1), size, both),
        "a file that ends before the part": MappableFile(unsealed_file(size), size, both, 1),
        "a file from byte -1": MappableFile(unsealed_file(size), size, both, -1),
        "a file from byte 2^63 - 1": MappableFile(unsealed_file(size), size, both, 2**63 - 1),
        "0 bytes of a file": MappableFile(unsealed_file(size), 0, both),
        "a file with no protection": MappableFile(unsealed_file(size), size, 0),
        "a file that is to be executed": MappableFile(unsealed_file(size), size, mmap.PROT_READ | mmap.PROT_EXEC),
    }


def unusable_pools(size: int) -> dict[str, Memory]:
    """Pools whose handles cannot be decoded or mapped."""
    both = mmap.PROT_READ | mmap.PROT_WRITE
    sealed = create_sealed(size, "nnhal-check")
    return {
        "ashmem that can only be written": Ashmem(_again(sealed, os.O_WRONLY), size),
        "a sealed file that can only be written": MappableFile(_again(sealed, os.O_WRONLY), size, both),
        "a file that can only be written": MappableFile(_again(unsealed_file(size), os.O_WRONLY), size, both),
        "a file that can only be named": MappableFile(_again(unsealed_file(size), os.O_PATH), size, both),
        "a BLOB whose memory may shrink": _blob(size, _unsealed(size)),
        "a BLOB whose memory is too small": _blob(size, create_sealed(size - 1, "nnhal-check")),
        "a BLOB of another allocator": _blob(size, i0=7),
        "a BLOB of no format": _blob(size, i5=99),
        "a BLOB of a negative width": _blob(size, i2=-size, i8=-size),
        "a hardware buffer without descriptors": HardwareBuffer(NativeHandle((), create_blob(size).handle.ints)),
    }


@rule(GROUP, _PAGE, "MV-02", "RQ-14", over=ALL_RUNS)
def contradictions(device: Subject, way: RunWay) -> None:
    """A pool that contradicts its description is INVALID_ARGUMENT; one that cannot be decoded or mapped is
    GENERAL_FAILURE.
    """
    held = device.prepare()
    work, size = held.work(), SmallRequest.bytes_of(held.small)
    for status, pools in ((INVALID, bad_pools(size)), (FAILURE, unusable_pools(size))):
        for what, pool in pools.items():
            request = replace(work.request, pools=(pool,))
            refused_run(way, held, request, status, what=what)
        held.session.link.drop()
    work.run(way(held, work.request))


@rule(GROUP, _PAGE, "RQ-14", over=ALL_RUNS)
def images(device: Subject, way: RunWay) -> None:
    """A whole hardware buffer of images as an argument is GENERAL_FAILURE."""
    held = device.prepare()
    work = held.work()
    usage = Usage.CPU_READ_OFTEN | Usage.CPU_WRITE_OFTEN
    image = create_hardware_buffer(BufferDescription(8, 8, 1, Format.R8G8B8A8_UNORM, usage, 8))
    whole, pools = RequestArgument(DataLocation(1)), (work.memory, image)
    for request in (
        replace(work.request, inputs=(whole, *work.request.inputs[1:]), pools=pools),
        replace(work.request, outputs=(whole,), pools=pools),
    ):
        refused_run(way, held, request, FAILURE, what="an image")
    work.run(way(held, work.request))


@rule(GROUP, _PAGE)
def shortened_constants(device: Subject) -> None:
    """Constants are kept when their file is shortened; it is no pool of another model then."""
    small = device.small
    file = unsealed_file(small.bytes)
    os.pwrite(file.fileno(), small.values(5)[-1].tobytes(), 0)
    model = small.of_constant(map_file(file, small.bytes), 0)
    if model is None:
        raise NotOfferedError(f"{small.name} has one input, and no constants in pools")
    held = device.prepare_if_supported(model, f"{small.name} with a constant")
    os.ftruncate(file.fileno(), 0)
    work = held.work()
    work.fill(5)
    held.execute(replace(work.request, inputs=work.request.inputs[:-1]))
    work.require_output()
    refused(lambda: held.session.prepare(model), INVALID, what="a file that is too short")


@rule(GROUP, _PAGE, "MV-02", "PM-03")
def contradictions_of_constants(device: Subject) -> None:
    """A model whose constants lie in such a pool is refused likewise."""
    small, session = device.small, device.session()
    for status, pools in ((INVALID, bad_pools(small.bytes)), (FAILURE, unusable_pools(small.bytes))):
        for what, pool in pools.items():
            model = small.of_constant(pool, 0)
            if model is None:
                raise NotOfferedError(f"{small.name} has one input, and no constants in pools")
            refused(partial(session.prepare, model), status, what=what)


@rule(GROUP, "reference/protocol.md#a-session")
def unknown_descriptor(device: Subject) -> None:
    """A descriptor id that the link has not numbered, or that was dropped, is INVALID_ARGUMENT."""
    held = device.prepare()
    work = held.work()
    size = SmallRequest.bytes_of(held.small)
    memory = create_ashmem(size)
    (dropped,) = held.session.link.put(memory.descriptor.fileno())
    held.session.link.drop(dropped)
    for what, number in {"an unknown id": 10**9, "id 0": 0, "a dropped id": dropped}.items():
        request = held.session.request(work.request)
        request.pools[0].pool.ashmem.descriptor_id = number
        refused(partial(held.execute, request), INVALID, what=what)
    nothing = held.session.request(work.request)
    nothing.pools[0].CopyFrom(request_pb2.RequestMemoryPool(pool=memory_pb2.Memory()))
    refused(lambda: held.execute(nothing), INVALID, what="a pool of no kind")


@rule(GROUP, _PAGE)
def dropped_while_mapped(device: Subject) -> None:
    """A mapping through a descriptor stays when that is dropped."""
    held = device.prepare()
    work = held.work()
    assert isinstance(work.memory, Ashmem)
    (number,) = held.session.link.put(work.memory.descriptor.fileno())
    request = held.session.request(work.request)
    request.pools[0].pool.ashmem.descriptor_id = number
    bound = held.bind(request)
    held.session.link.drop(number)
    work.run(bound.run)


@rule(GROUP, _PAGE, "RQ-14", over=ALL_RUNS)
def unwritable_output(device: Subject, way: RunWay) -> None:
    """An output in memory that can only be read is refused, and the device goes on."""
    held = device.prepare()
    work, size = held.work(), SmallRequest.bytes_of(held.small)
    file, sealed = unsealed_file(size), create_sealed(size, "nnhal-check")
    pools: dict[str, Memory] = {
        "ashmem that is open for reading": Ashmem(_again(sealed, os.O_RDONLY), size),
        "a sealed file that is open for reading": map_file(_again(sealed, os.O_RDONLY), size, writable=False),
        "a sealed file with PROT_READ": map_file(sealed, size, writable=False),
        "a file that is open for reading": map_file(_again(file, os.O_RDONLY), size, writable=False),
        "a file with PROT_READ": map_file(file, size, writable=False),
    }
    for what, pool in pools.items():
        request = replace(work.request, pools=(pool,))
        refused_run(way, held, request, FAILURE, INVALID, what=what)
    work.run(way(held, work.request))
