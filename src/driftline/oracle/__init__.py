"""Decide whether the outputs of a target are correct: references, rounding-noise model, comparison and verdict."""
