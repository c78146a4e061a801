"""The build of the wheel writes the man page from the commands, so that it is never out of date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPageHook(BuildHookInterface[Any]):
    """Adds share/man/man1/driftline.1 to a wheel; an editable installation has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from driftline.cli.man_page import man_page

        page = Path(self.root) / "build" / "driftline.1"
        page.parent.mkdir(exist_ok=True)
        page.write_text(man_page())
        build_data["shared_data"][str(page)] = "share/man/man1/driftline.1"
