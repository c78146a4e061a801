"""The store: keeps bugs, findings, hunts and everything else that has to survive the process."""

from driftline.store.store import Bug, Finding, Store, sound_bugs

__all__ = ["Bug", "Finding", "Store", "sound_bugs"]
