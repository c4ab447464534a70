"""The wire to a device on another host: what both of its ends have in common."""
