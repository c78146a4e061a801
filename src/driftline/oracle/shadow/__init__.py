"""The shadow: the program's own graph in float64, with the rounding errors that legal implementations may make.

It has two front ends (torch tapes and ONNX graphs) and one noise model (`oracle/noise.py`).
"""
