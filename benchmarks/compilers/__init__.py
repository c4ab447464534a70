"""Arm's Vela beside nnhal's cascading compiler, live, on networks of others; docs/cascading.md describes it."""
