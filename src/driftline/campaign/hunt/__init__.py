"""The hunt: lanes of programs, shared out over processes and machines until the budget is spent."""
