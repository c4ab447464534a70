"""What every serving process of nnhal shares: its servers and sessions, settings, logs, traces and supervision."""
