"""The built-in constraints, one idea to a file. They are registered like any other: `constraint.py`."""
