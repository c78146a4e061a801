"""A bug in the form that somebody else needs: a script, an issue text, a regression test, a model, or all facts."""
