"""Ways to serve from several hosts, measured beside one another."""
