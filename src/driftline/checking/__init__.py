"""The one function everything is built on: a case in, verdicts out. Hunting, reducing and bisecting loop over it."""
