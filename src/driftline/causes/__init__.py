"""Causes: tested hypotheses about why a compiler fails, each a small file with a program that shows it.

A cause annotates bugs, and groups them in lists and reports. It decides neither which bug a failure is, nor whether
it counts, nor whether it is diagnosed. `cause.py` says what one is, `read.py` reads the files, `library.py` keeps those
of Driftline and of the user together, and `match.py` says whether a cause explains what was seen (`sighting.py`).
"""

from driftline.causes.cause import Cause, Experiment, Neighbour, Question, Witness
from driftline.causes.library import Library, builtin, load
from driftline.causes.match import explains, may_explain, mismatch
from driftline.causes.sighting import Sighting

__all__ = [
    "Cause",
    "Experiment",
    "Library",
    "Neighbour",
    "Question",
    "Sighting",
    "Witness",
    "builtin",
    "explains",
    "load",
    "may_explain",
    "mismatch",
]
