"""The constraints that Driftline has, one idea to a file. They register like everybody else's: `constraint.py`."""
