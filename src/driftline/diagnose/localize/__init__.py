"""Find where in a program a compiler goes wrong.

ladder.py      simpler forms of the same compiler: which is the first that fails?
stretches.py   the values of the reference run, computed when they are needed   part.py     some nodes as a program
apart.py       a program taken apart, and what is asked about its parts        tasks.py    what workers are asked
alone.py       does a single operator fail by itself? Asked first
narrow.py      the smallest part that fails by itself                          result.py   what all of it tells
localizer.py   the whole course
"""
