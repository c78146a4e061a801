"""Format times and ratios."""

from __future__ import annotations

from driftline.measure.estimate import Estimate


def milliseconds(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def times(ratio: Estimate) -> str:
    """Format a ratio with its interval."""
    return f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
