"""The wait of a request: the queue, batches, and the turns of a sequence."""
