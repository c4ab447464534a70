"""Conformance vectors: tests as data, run against a device."""
