"""Schedules of TensorIR: tests that random schedule primitives do not change what a tensor program computes.

`functions.py` has programs that are known to be right, `primitives.py` the primitives that can be applied, and
`drawing.py` draws them at random. A *trace* (`trace.py`) is a function with its sizes and steps: it is stored as JSON,
replayed in a fresh process (`performing.py`, in workers), reduced (`reducing.py`) and written as a script of plain TVM
(`script.py`).
"""
