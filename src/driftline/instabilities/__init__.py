"""Numerical instabilities across runtimes: compose small models, run them on many runtimes, count what breaks, compare.

`compose.py` makes models from operators; `run.py` measures every model on every input with every framework; what the
oracle calls wrong is checked again and kept in the store; `comparison.py` and `pictures.py` put several runs together.
"""
