"""Hardware profiles: what a device can run, its constraints, and the facts about graphs that they are checked against.

A *profile* (`profile.py`) names a device and its *constraints* (`constraints/`, one idea to a file). A constraint reads
plain *facts* about a graph (`facts.py`), never the graph itself, and says where it is broken (`violation.py`). Only
`fx_facts.py`, `lowering.py` and `compute.py` import torch, and only when they are called.
"""
