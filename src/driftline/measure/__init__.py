"""How fast is it? Sound timing on a machine that does other things too.

Two programs are compiled in processes of their own and run in turn, round by round, so that what disturbs one disturbs
the other (`rounds.py`, `contestant.py`). What is reported is the median of the paired ratios with its bootstrap
interval (`estimate.py`), by CPU time beside wall time, and only beyond the *noise floor*: what the same measurement
says of a program against itself.
"""
