"""Finds and loads profiles: shipped ones by their names, and files of TOML or Python."""

from __future__ import annotations

import runpy
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.hardware.profile import Profile
from driftline.hardware.reader import read_profile

SHIPPED = Path(__file__).with_name("profiles")
GENERIC = "generic"  # the profile that is taken when no profile is named


def shipped_profiles() -> list[str]:
    """List the names of the profiles that come with Driftline."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_profile(profile: str | Path | Profile) -> Profile:
    """Load a profile by the name of a shipped one, by a TOML file, or as `file.py:name` of a Python file."""
    if isinstance(profile, Profile):
        return profile
    text = str(profile)
    python, _, attribute = text.partition(".py:")
    if text.endswith(".py") or attribute:
        return _from_python(Path(f"{python}.py") if attribute else Path(text), attribute or "profile")
    return read_profile(profile_file(text))


def profile_file(text: str) -> Path:
    """Find the TOML file of a profile, by the name of a shipped one or by its path."""
    if text in shipped_profiles():
        return SHIPPED / f"{text}.toml"
    path = Path(text).expanduser()
    if not path.is_file():
        known = shipped_profiles()
        hint = did_you_mean(text, known)
        raise DriftlineError(
            f"There is no profile {text!r}: neither a file nor a shipped one.{hint} Shipped: {', '.join(known)}."
        )
    return path


def _from_python(path: Path, attribute: str) -> Profile:
    """Run the file and return the profile that it defines: for the user's own process, and for workers."""
    if not path.is_file():
        raise DriftlineError(f"The profile {path} does not exist.")
    found = runpy.run_path(str(path)).get(attribute)
    if not isinstance(found, Profile):
        raise DriftlineError(f"{path} defines no Profile called {attribute!r}; write {attribute} = Profile(...).")
    return found
