"""What turns users' models into HAL models: one package for each format, all with an ImportedModel as the result."""
