"""Programs that a language model wrote: screened as text, brought into the form of a factory, run in eager.

All of it happens in a worker, which is sandboxed. What cannot be used has a name (`names.py`) and is never an error of
ours, nor a bug of a compiler.
"""
