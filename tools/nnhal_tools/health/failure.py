"""What is wrong with a process that was asked for its health."""

from __future__ import annotations


class Unhealthy(Exception):  # noqa: N818 - what it says of a process, which need not be an error of this one
    """The process does not answer, or answers that it does not serve. The message says which."""
