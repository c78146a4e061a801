"""Turns a suspect into a bug: finds the smallest part that still fails, in its plainest form, and names it."""
