"""Find which options, passes and rewrite rules a failure needs.

tasks.py     which rules and passes are at work on a program: asked of a worker
cures.py     the smallest set of knobs that makes it pass, found by halving
ablator.py   the whole course
"""
