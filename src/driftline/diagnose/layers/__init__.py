"""Look at a program layer by layer: the error of a target along the graph, compared with legal rounding there.

inside.py    a program whose values can be looked at     choose.py    which of them, and how many at once
match.py     the same value in two programs              measure.py   the error of one value
look.py      the whole course                            result.py    what it tells
"""
