"""The issue tracker of a compiler, and the issue template of its maintainers."""

from __future__ import annotations

from dataclasses import dataclass

# Headings and templates. The fields allowed in braces are listed in `report/export/issue.py`.
SECTIONS = (
    ("What happens", "{description}"),
    ("How to reproduce it", "{reproducer}"),
    ("Output", "{output}"),
    ("Versions", "{versions}"),
)


@dataclass(frozen=True)
class Tracker:
    """An issue tracker. `sections` are those of the project's issue template: each is a heading and a text with fields
    in braces, such as `{description}`, `{reproducer}`, `{output}` and `{versions}`."""

    url: str = ""
    sections: tuple[tuple[str, str], ...] = SECTIONS


# Used by several backends and by a converter.
PYTORCH = Tracker(
    "https://github.com/pytorch/pytorch/issues",
    (
        (
            "\N{BUG} Describe the bug",
            "{description}\n{fuzzer_checklist}\n- [ ] The output of `python -m torch.utils.collect_env` is attached",
        ),
        ("Minimal reproducer", "{reproducer}"),
        ("Output", "{output}"),
        ("Versions", "{versions}"),
    ),
)
