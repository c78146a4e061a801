"""Read and write inputs in the files of other tools: KLEE test cases, FPGen inputs, and tables of numbers.

Files are untrusted: sizes are checked before anything is allocated, and every kind of damage is reported in one
sentence.
"""
