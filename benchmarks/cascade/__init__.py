"""What the cascading compiler reaches, beside what others publish; docs/cascading.md describes it."""
