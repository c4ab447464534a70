"""A model that serves requests, those that there are, and what operators are shown of all of them."""
