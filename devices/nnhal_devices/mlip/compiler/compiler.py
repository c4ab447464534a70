"""From the files of a subgraph to a binary."""

from __future__ import annotations

