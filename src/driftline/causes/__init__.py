"""Causes: tested hypotheses about why a compiler fails, each a small file with a program that shows it.

A cause annotates bugs and groups them in lists and reports. It does not decide which bug a failure is, whether it
counts, or whether it is diagnosed. `cause.py` defines causes, `read.py` reads their files, `library.py` combines those
of Driftline and of the user, and `match.py` decides whether a cause explains a failure (`sighting.py`).
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
