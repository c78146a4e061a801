"""Programs in the shapes that models have, for every language: see `generator.py`."""
