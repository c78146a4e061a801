"""`driftline bench`: real models on several compilers, timed, counted and judged; and two such runs compared."""
