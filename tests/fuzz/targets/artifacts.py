"""Files that nnhal writes and reads again: recordings, binaries, command streams, entries of compilation caches."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from random import Random

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.memory import CopyBudget
from nnhal.recording import DeviceRecordingError, RecordingWriter, read_device_recording
from nnhal.recording.file_form import MAGIC, RECORD, RecordKind
from nnhal.recording.models import recorded_model, restored_model
from nnhal.types import NO_DEADLINE
from nnhal.v1 import device_pb2, recording_pb2
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.stream.binary import from_bytes, to_bytes
from nnhal_cascade.stream.commands import DIGEST_BYTES
from nnhal_cascade.stream.disassembler import disassemble
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_acc.artifact import read_artifact
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.host.sessions import cache as entries
from nnhal_devices.host.sessions.cache import CacheFiles, EntryLengths
from nnhal_devices.host.sessions.models import ValidModel, resolve
from nnhal_hosting.faults import FaultDocumentError, read_document
from nnhal_mlip.program.binary import read_binary, write_binary
from nnhal_mlip.program.errors import BinaryError
from nnhal_mlip.program.metadata import METADATA_BYTES, sealed
from nnhal_mlip.program.program import TensorType
from tests.fuzz.mutators.messages import MessageMutator
from tests.fuzz.mutators.octets import mutate_octets, mutate_words
from tests.fuzz.mutators.texts import mutate_text
from tests.fuzz.target import FuzzTarget, Mutate, scratch_folder
from tests.support.additions import addition_model
from tests.support.caching import TOKEN, convolutional_network
from tests.support.mlip_small_program import small_program
from tests.support.schedules import cascade, schedule_of
from tests.support.small_networks import two_convs

_MOST_RECORDS = 10_000
_VERSION = "1"


def _recording(data: bytes) -> None:
    """Read all of a recording as a replay does, the models included."""
    path = scratch_folder() / "a.nnrec"
    path.write_bytes(data)
    with read_device_recording(path) as recording:
        for call in islice(recording.calls, _MOST_RECORDS):
            asked = call.event.preparation
            if asked.model.HasField("model"):
                ValidModel.of(restored_model(asked.model, recording.content))


def _recording_seeds() -> Iterator[bytes]:
    path = scratch_folder() / "seed.nnrec"
    with path.open("wb") as file:
        writer = RecordingWriter(file.fileno(), recording_pb2.RecordingHeader(version=1, nnhal_version="9.9"))
        resolved = resolve(convolutional_network().model)
        model = recorded_model(resolved, writer.content)
        call = recording_pb2.RecordedEvent(started_ns=1, ended_ns=9, session=1, method="DeviceService.PrepareModel")
        call.preparation.model.CopyFrom(model)
        again = recording_pb2.RecordedEvent(started_ns=20, ended_ns=29, session=1, method="Channel.Burst")
        again.again_ns.extend((100, 7, 50, 8))
        writer.events([call, again])
        writer.end(recording_pb2.RecordingFigures(calls=2))
    yield path.read_bytes()


_EVENTS = MessageMutator(recording_pb2.RecordedEvents)
_HEADER = MessageMutator(recording_pb2.RecordingHeader)


def _mutate_recording(data: bytes, source: Random) -> bytes:
    """Change the payload of a record, and seal it again."""
    records, place = [], len(MAGIC)
    while place + RECORD.size <= len(data):
        kind, length, _ = RECORD.unpack_from(data, place)
        place += RECORD.size
        records.append((kind, data[place : place + length]))
        place += length
    if not records or source.random() < 0.1:
        return mutate_octets(data, source)
    chosen = source.randrange(len(records))
    kind, payload = records[chosen]
    match source.randrange(5):
        case 0:
            records[chosen] = source.randrange(6), payload
        case 1:
            records.insert(chosen, source.choice(records))
        case 2:
            del records[chosen]
        case _ if kind == RecordKind.EVENTS:
            try:
                payload = zlib.compress(_EVENTS(zlib.decompress(payload), source), 1)
            except zlib.error:
                payload = mutate_octets(payload, source)
            records[chosen] = kind, payload
        case _:
            change: Mutate = _HEADER if kind == RecordKind.HEADER else mutate_octets
            records[chosen] = kind, change(payload, source)
    return MAGIC + b"".join(RECORD.pack(kind, len(each), zlib.crc32(each)) + each for kind, each in records)


def _mlip(data: bytes) -> None:
    read_binary(data)


def _mlip_seeds() -> Iterator[bytes]:
    for element_type in (TensorType.FP16, TensorType.INT8):
        for pinned in (False, True):
            yield write_binary(*small_program(element_type, pinned=pinned))


def _mutate_mlip(data: bytes, source: Random) -> bytes:
    changed = mutate_words(data, source)
    return sealed(changed) if len(changed) >= METADATA_BYTES and source.random() < 0.9 else changed


def _stream(data: bytes) -> None:
    disassemble(from_bytes(data))


def _stream_seeds() -> Iterator[bytes]:
    graph = build_graph(two_convs())
    system = system_for("u55-256")
    yield to_bytes(emit(schedule_of(graph, system, [cascade(graph, [0, 1], 4)])))


_STREAM_HEAD = struct.Struct("<4sHxxQI")


def _mutate_stream(data: bytes, source: Random) -> bytes:
    """Change the sections, with the checksum and the length that the header says."""
    head = _STREAM_HEAD.size + DIGEST_BYTES
    body = mutate_words(data[head:], source)
    if len(data) < head or source.random() < 0.1:
        return mutate_octets(data, source)
    magic, version, _, _ = _STREAM_HEAD.unpack_from(data)
    sealed_head = _STREAM_HEAD.pack(magic, version, len(body), zlib.crc32(body))
    return sealed_head + data[_STREAM_HEAD.size : head] + body


def _memory_file(content: bytes) -> Descriptor:
    number = os.memfd_create("fuzz")
    os.write(number, content)
    return Descriptor(number)


_ENTRY_BYTES = 72
"""The header of an entry: a magic of 16 bytes, a digest of 32, three lengths."""


def _entry(data: bytes) -> None:
    """Load an entry of two files, joined to one input, as a device with artifacts does."""
    length = int.from_bytes(data[:4], "little")
    files = CacheFiles((_memory_file(data[4 : 4 + length]),), (_memory_file(data[4 + length :]),), TOKEN)
    header = entries.read_header(files)
    model, options = entries.load(
        files, header, _VERSION, NO_DEADLINE, CopyBudget(1 << 24, "of the fuzzer"), restores=True
    )
    resolved = ValidModel.of(model).resolved
    if options.artifact:
        read_artifact(options.artifact, resolved)


def _entry_seeds() -> Iterator[bytes]:
    for model in (addition_model(), convolutional_network().model):
        for driver in (None, CpuAcc(DriverOptions())):
            files = CacheFiles((_memory_file(b""),), (_memory_file(b""),), TOKEN)
            resolved, options = resolve(model), PrepareOptions()
            workload = None if driver is None else driver.prepare(resolved, options)
            entries.save(files, _VERSION, resolved, options, workload)
            first, second = (_content(each) for each in (*files.model, *files.data))
            yield len(first).to_bytes(4, "little") + first + second


def _content(file: Descriptor) -> bytes:
    return os.pread(file.fileno(), 1 << 20, 0)


_STRUCTURE = MessageMutator(device_pb2.PrepareModelRequest)


def _mutate_entry(data: bytes, source: Random) -> bytes:
    """Change the model, its constants or its artifact, and seal the entry as somebody does who knows the token."""
    length = int.from_bytes(data[:4], "little")
    first, second = data[4 : 4 + length], data[4 + length :]
    if len(first) < _ENTRY_BYTES or source.random() < 0.1:
        return mutate_octets(data, source)
    lengths = EntryLengths(*struct.unpack_from("<QQQ", first, _ENTRY_BYTES - 24))
    structure, change = first[_ENTRY_BYTES:], source.randrange(3)
    if lengths.model != len(structure) or lengths.constants > len(second):
        return mutate_octets(data, source)
    constants, artifact = second[: lengths.constants], second[lengths.constants :]
    if change == 0:
        structure = _STRUCTURE(structure, source)
    elif change == 1:
        constants = mutate_octets(constants, source)
    else:
        artifact = (mutate_text if source.random() < 0.5 else mutate_octets)(artifact, source)
    lengths = EntryLengths(len(structure), len(artifact), len(constants))
    digest = entries._digest(TOKEN, _VERSION, lengths, [[structure], [constants, artifact]])
    first = first[:16] + digest + struct.pack("<QQQ", *lengths) + structure
    return len(first).to_bytes(4, "little") + first + constants + artifact


def _faults(data: bytes) -> None:
    read_document(data.decode("utf-8", "replace"))


def _fault_seeds() -> Iterator[bytes]:
    yield b'{"fault": [{"what": "hang", "device": ["npu*"]}, {"what": "delay", "name": "d", "ms": 5}]}'
    yield b'{"fault": [{"what": "error", "status": "GENERAL_FAILURE", "nth": 3}]}'


TARGETS = (
    FuzzTarget(
        "recording", _recording, (DeviceRecordingError, HalError), _recording_seeds, _mutate_recording, plain=False
    ),
    FuzzTarget("mlip_binary", _mlip, (BinaryError,), _mlip_seeds, _mutate_mlip, plain=False),
    FuzzTarget("command_stream", _stream, (ValueError,), _stream_seeds, _mutate_stream, plain=False),
    FuzzTarget("cache_entry", _entry, (HalError,), _entry_seeds, _mutate_entry),
    FuzzTarget("faults", _faults, (FaultDocumentError,), _fault_seeds, mutate_text),
)
