"""The program of a rule as a script of a few lines: made where all scripts are made."""

from __future__ import annotations

from driftline.programs.render import short_script as short_script
