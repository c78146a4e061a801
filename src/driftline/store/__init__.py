"""What was found, for good."""

from driftline.store.store import Bug, Finding, Store

__all__ = ["Bug", "Finding", "Store"]
