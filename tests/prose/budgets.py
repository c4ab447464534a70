"""Words that each page for people may have."""

from __future__ import annotations

BUDGETS = {
    "README.md": 600,
    "docs/README.md": 200,
    "docs/quickstart.md": 900,
    "docs/architecture.md": 1700,
    "docs/partitioning.md": 1700,
    "docs/client.md": 1700,
    "docs/doors.md": 1300,
    "docs/serve.md": 2200,
    "docs/write_a_device.md": 2500,
    "docs/debug_a_driver.md": 2500,
    "docs/operate.md": 2200,
    "docs/deploy.md": 2200,
    "docs/security.md": 1600,
    "docs/cascading.md": 2000,
    "docs/mlip.md": 2000,
    "docs/benchmarks.md": 1500,
    "docs/reference/v2.md": 2000,
    "docs/reference/repository.md": 2400,
    "docs/reference/protocol.md": 4000,
    "CONTRIBUTING.md": 1500,
}
"""Pages in the order in which the README and the site have them, with the most words that ``wc -w`` may count."""
LONGEST_SENTENCE = 30
"""Words of a sentence; code and links count as their words."""
RIDDLES = (
    r"of which",
    r"told",
    r"what (?:\S+ ){0,5}that",
    r"those that",
    r"so much are",
    r"lets one",
    r"whether (?:\S+ ){0,3}at all",
)
"""Phrases that a reader has to decode, as regular expressions."""
HISTORY = (r"no longer", r"now", r"formerly", r"previously", r"used to be", r"(?:ever )?since (?:version|release)")
"""Phrases of pages that say what was before: that is the changelog's."""
