"""Inputs found by solving: numbers that make an expression NaN, infinite, inaccurate, or dependent on its lowering.

formats.py     float formats, rounding, ordinals        graph.py       the hash-consed scalar graph
operators.py   what operations compute                  evaluate.py    running a graph, bit for bit
functions.py   softmax, norms, ... as graphs            rewrites.py    legal lowerings of a graph
goals.py       goals and queries                        portfolio.py   solve(query): the steps in order
intervals.py, proofs.py   step 0                        specials.py    step 1
prune.py       step 2: branch and prune                 hopping.py, distance.py   step 3: basin hopping
smt.py, exact.py          step 4: Bitwuzla              answers.py     witness, proof or unknown
"""
