"""Recordings of the calls of a device's clients: their file (recording.proto), written by devices, read by tools."""

from nnhal.recording.file_form import INVALID_DEADLINE, MAX_CONTENT_BYTES, VERSION, DeviceRecordingError
from nnhal.recording.models import WEIGHT_BYTES, recorded_model, refused_model, restored_model
from nnhal.recording.reading import DeviceRecording, RecordedCall, read_device_recording
from nnhal.recording.writing import RecordingWriter

__all__ = [
    "INVALID_DEADLINE",
    "MAX_CONTENT_BYTES",
    "VERSION",
    "WEIGHT_BYTES",
    "DeviceRecording",
    "DeviceRecordingError",
    "RecordedCall",
    "RecordingWriter",
    "read_device_recording",
    "recorded_model",
    "refused_model",
    "restored_model",
]
