"""The hunt: runs generated programs in lanes, spread over processes and machines, until the budget is spent."""
