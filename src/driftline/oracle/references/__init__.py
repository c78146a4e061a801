"""The meaning of a program, one file per framework: its own result, and the same computed in float64."""
