"""Explaining a bug: localise, reduce, ablate, bisect, replay and export, each with a memory in the store."""
