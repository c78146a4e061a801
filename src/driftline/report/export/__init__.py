"""Export a bug for others: as a script, an issue text, a regression test, a model, or JSON with all facts."""
