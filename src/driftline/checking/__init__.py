"""Checks a case on its targets and returns verdicts. Hunts, reductions and bisections call this repeatedly."""
