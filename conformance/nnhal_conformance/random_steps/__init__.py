"""Random steps of several clients of a device: Hypothesis draws them, and shrinks those that show a broken rule."""
