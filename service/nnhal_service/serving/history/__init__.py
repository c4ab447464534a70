"""History of requests: counts, live and ended runs, recordings of runs, and who observes them."""
