"""Options of the `xla` target in XLA's own words: what the backend sets, and what a script prints."""

from __future__ import annotations

from collections.abc import Mapping


def xla_config(options: Mapping[str, str]) -> dict[str, object]:
    """The configuration that a target's options stand for."""
    settings: dict[str, object] = {}
    if "opt" in options:
        settings["xla_backend_optimization_level"] = int(options["opt"])
    if "fusion_emitters" in options:
        settings["xla_cpu_use_fusion_emitters"] = options["fusion_emitters"] == "true"
    if "disable" in options:
        settings["xla_disable_hlo_passes"] = options["disable"].replace("+", ",")
    return settings
