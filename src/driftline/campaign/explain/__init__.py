"""Explains bugs: localise, reduce, ablate, bisect, replay and export. The results are kept in the store."""
