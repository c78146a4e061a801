"""Make a script that calls `torch.compile` itself shorter, so that it still fails in the same way.

    likeness.py   what "in the same way" means            search.py       the best so far, the memo, the budget
    asking.py     one question about one text             reducer.py      the whole course: `reduce_script`
    observed.py   what expressions hold in an eager run   edits.py        changes of a syntax tree, and groups of them
    tidying.py    names that nothing uses any more        size.py         which of two texts is smaller

Where candidates come from, each in a file: statements.py, inlining.py, callables.py (parameters, classes) and
expressions.py. All work on the syntax tree and know nothing of compilers; whether a candidate still fails is found out
by running it, so a pass may offer texts that make no sense.
"""
