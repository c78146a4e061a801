"""What was found, for good."""

from driftline.store.store import Bug, Finding, Store, sound_bugs

__all__ = ["Bug", "Finding", "Store", "sound_bugs"]
