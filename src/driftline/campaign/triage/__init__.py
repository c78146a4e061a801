"""From a suspect to a bug: the smallest part that still fails, in its plainest form, under a known name."""
