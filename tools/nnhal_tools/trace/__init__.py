"""The timeline of runs as a file for chrome://tracing or Perfetto."""

from nnhal_tools.trace.timeline import add_run

__all__ = ["add_run"]
