"""The page of attacks is that of the attacks that the tests play."""

from __future__ import annotations

import re

from hostile.attack_table import PAGE, names


def test_the_page_names_every_attack() -> None:
    shown = set(re.findall(r"^\| ([^|]+?) \|", PAGE.read_text(), re.MULTILINE)) - {"attack", "---"}
    assert shown == names(), "run python tests/hostile/attack_table.py"
