"""The shadow of recorded torch programs: each call is computed in higher precision, with the rounding errors that are
legal."""
