"""Plugin files are imported once, and whoever asks for one finds it imported."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from driftline.core.plugins import load_plugins


def test_threads_that_ask_at_once_all_find_it_imported(tmp_path: Path) -> None:
    plugin = tmp_path / "slow_to_import.py"
    plugin.write_text("import threading\nthreading.Event().wait(0.2)\nready = True\n")

    def load(_: int) -> bool:
        load_plugins([str(plugin)])
        (module,) = (module for name, module in sys.modules.items() if name.startswith("driftline_plugin_slow_to_im"))
        return hasattr(module, "ready")

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(load, range(4)))
