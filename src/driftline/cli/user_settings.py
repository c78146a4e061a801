"""The user's own settings: `~/.config/driftline/config.toml`, outside every repository.

    [llm]
    base_url = "https://models.example.com/v1"
    api_key_variable = "MY_API_KEY"

Only this file, the environment and the command line say where a key is sent: a project file may come from a stranger.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from driftline.core.config import user_settings_file
from driftline.core.errors import DriftlineError
from driftline.llm.settings import check_table


def user_llm_table() -> dict[str, Any]:
    """What the user's own file says below `[llm]`; empty without the file."""
    path = user_settings_file()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DriftlineError(f"{path} cannot be read: {error}. Correct the file, or remove it.") from error
    for key in table:
        if key != "llm":
            raise DriftlineError(f"{path}: there is no setting {key!r} here. Known: llm.")
    return check_table(str(path), table.get("llm", {}))


def merged_llm_table(project: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of the language model: the user's own ones win over those of the project."""
    return {**(project or {}), **user_llm_table()}
