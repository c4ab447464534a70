"""Ways to cascade parts: plans, and the proposals that they combine to."""
