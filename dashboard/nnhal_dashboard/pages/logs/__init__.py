"""The log lines of all processes: filtered, live, and with the level of each process changed here."""
