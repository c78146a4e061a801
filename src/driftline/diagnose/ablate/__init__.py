"""Which options, passes and rewrite rules does a failure need?

tasks.py     which rules and passes are at work on a program: asked of a worker
cures.py     the smallest set of knobs that makes it pass, found by halving
ablator.py   the whole course
"""
