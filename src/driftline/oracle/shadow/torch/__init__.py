"""The shadow of captured torch programs: each call computed in higher precision, with what rounding may move."""
