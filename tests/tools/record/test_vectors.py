"""Which executions of a recording become vectors."""

from __future__ import annotations

from pathlib import Path

from nnhal.recording import RecordingWriter, read_device_recording
from nnhal.v1 import recording_pb2 as wire
from nnhal_tools.record.vectors import vectors_of

MEBIBYTE = 1 << 20


def test_an_execution_with_too_many_bytes_of_values_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.nnrec"
    prepared, bound, executed = (wire.RecordedEvent() for _ in range(3))
    prepared.preparation.prepared_model = 1
    for _ in range(33):
        prepared.preparation.model.constants.add(value=wire.RecordedContent(digest=bytes(32), size=2 * MEBIBYTE))
    bound.request.request = bound.request.prepared_model = 1
    executed.execution.request = 1
    executed.execution.result.output_sufficient_size = True
    with path.open("wb") as file:
        RecordingWriter(file.fileno(), wire.RecordingHeader(version=1)).events([prepared, bound, executed])
    with read_device_recording(path) as recording:
        lines, left_out = vectors_of(recording, "group")
    assert not lines
    assert left_out == {"executions with more than 67108864 bytes of values and constants": 1}
