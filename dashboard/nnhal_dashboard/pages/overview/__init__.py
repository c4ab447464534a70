"""The first page: what is wrong, how much is done, what has happened."""
