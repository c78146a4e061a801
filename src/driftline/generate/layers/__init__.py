"""Programs with the structure of real models, in every language: see `generator.py`."""
