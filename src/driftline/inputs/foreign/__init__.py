"""Inputs in the files of other tools: KLEE test cases, FPGen inputs, and tables of numbers. Read and written.

Such files come from anywhere. Sizes are looked at before anything is allocated, and every kind of damage is one
sentence.
"""
