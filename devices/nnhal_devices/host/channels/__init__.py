"""The sockets over which executions are asked for: bursts, run channels, launch channels, and wired chains."""
