"""Parts that all serving processes of nnhal share: servers, sessions, settings, logs, traces and supervision."""
