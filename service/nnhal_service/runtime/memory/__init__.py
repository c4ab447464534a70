"""Where the values of a bound model lie, and the requests that name them."""
