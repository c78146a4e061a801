"""The shadow: the program's own graph in float64, with the rounding errors that legal implementations may make.

Two front ends, torch tapes and ONNX graphs, over one noise model (`oracle/noise.py`).
"""
