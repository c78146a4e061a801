"""`driftline perf`: compilers whose results are right, and that are slow.

A question is always about two sides (`comparison.py`): the program on a target, and the same meaning elsewhere, on
eager, in the target's own unoptimised mode, in another release, or as a twin program. It is answered twice, in fresh
processes and in another order, and only beyond what the machine shows of a program against itself. `growth.py` asks how
compile time and memory grow with the program.
"""
