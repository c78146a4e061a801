"""Reference runs, one file per framework: the program's own result, and the same computed in float64."""
