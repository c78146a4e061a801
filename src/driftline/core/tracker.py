"""Where a compiler's bugs are reported, and the form that its maintainers ask for."""

from __future__ import annotations

from dataclasses import dataclass

# Headings and templates. What may stand in braces is listed in `report/export/issue.py`.
SECTIONS = (
    ("What happens", "{description}"),
    ("How to reproduce it", "{reproducer}"),
    ("Output", "{output}"),
    ("Versions", "{versions}"),
)


@dataclass(frozen=True)
class Tracker:
    """An issue tracker. The sections are those of the project's own issue template, each a heading and a text with
    fields in braces, such as `{description}`, `{reproducer}`, `{output}` and `{versions}`."""

    url: str = ""
    sections: tuple[tuple[str, str], ...] = SECTIONS


# Of several backends, and of a converter.
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
