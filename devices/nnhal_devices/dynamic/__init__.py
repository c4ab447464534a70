"""Dynamic backends: drivers in files that a device process finds and loads when it starts (docs/write_a_device.md)."""

from nnhal_devices.dynamic.loader import BackendError, register_backends

__all__ = ["BackendError", "register_backends"]
