"""Resources of a testbed, for pages and for commands: one table of resources over one snapshot of all processes."""
