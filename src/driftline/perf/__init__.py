"""`driftline perf`: compilers whose results are right, and that are slow.

A question always compares two sides (`comparison.py`): the program on a target, and the same computation on eager, in
the target's own unoptimised mode, in another release, or as a twin program. It is measured twice, in fresh processes
and in the other order, and a difference counts only beyond the noise of the machine. `growth.py` asks how compile time
and memory grow with the program.
"""
