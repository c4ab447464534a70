"""The sessions of all processes: whose they are, what they hold, and ending one."""
