"""Hunts over many machines: turns and examinations are Ray tasks (`driftline hunt --cluster`).

`ray_crew.py` is the side of the hunt, `node.py` what runs on a node, `joined.py` starts or joins a cluster.
"""
