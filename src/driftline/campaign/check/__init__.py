"""Checking with a memory: cases are run, failures are kept in the store with what was tried on them."""
