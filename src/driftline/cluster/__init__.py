"""Hunts over many machines: turns and examinations are Ray tasks (`driftline hunt --cluster`).

`ray_crew.py` is the side of the hunt, `node.py` what runs on a node, `joined.py` starts or joins a cluster. What is
examined on a node (`apart.py`) is recorded in the store of the hunt (`taking.py`).
"""
