"""Measure run times reliably on a machine that also does other work.

Two programs are compiled in processes of their own and run in turn, round by round, so that a disturbance affects both
(`rounds.py`, `contestant.py`). What is reported is the median of the paired ratios with its bootstrap interval
(`estimate.py`), by CPU time beside wall time, and only beyond the *noise floor*: the ratio measured for a program
against itself.
"""
