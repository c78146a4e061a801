"""`python -m driftline`: the command line."""

from driftline.cli import main

main()
