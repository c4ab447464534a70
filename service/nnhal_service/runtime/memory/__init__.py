"""Places of a bound model's values, and the requests that name them."""
