"""A HAL model as parts and tensors."""
