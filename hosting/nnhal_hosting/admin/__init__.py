"""AdminService in every serving process: who may ask, what is told of sessions, draining, and the last log lines."""
