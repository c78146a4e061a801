"""Programs written by a language model: screened as text, rewritten as a factory, run in eager mode.

All of this happens in a sandboxed worker. The reasons why a program cannot be used have names (`names.py`); they are
never errors of Driftline nor bugs of a compiler.
"""
