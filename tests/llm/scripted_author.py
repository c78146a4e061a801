"""A model of a few lines: it changes a number in the example that it is shown, and makes the mistakes of real ones."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from driftline.testing.chat_server import ChatReply, reply

REQUIREMENT = "PATTERN:\ny = relu(x)\nCONSTRAINTS:\n- x is a float"
WRITTEN = """\
```python
import torch

def model(x):
    return torch.relu(x.permute(1, 0).permute(1, 0)) + {number}

def program():
    return model, (torch.randn(3, {size}),)
```"""
MISTAKES = (
    reply(""),
    reply("```python\nimport tor", finish="length"),
    reply("", finish="content_filter"),
    reply("I would rather not."),
    reply("```python\nimport os\n" + WRITTEN.partition("\n")[2]),
    reply(WRITTEN.replace("torch.relu(", "torch.no_such_function(").format(number=1, size=4)),
)


def author(body: dict[str, Any], mistakes: bool = True) -> ChatReply:
    """The same answer to the same question: which one is drawn from its words."""
    asked = [message["content"] for message in body["messages"]]
    draw = hashlib.sha256("\0".join(asked).encode()).digest()
    if "does not run" in asked[-1]:
        return reply(WRITTEN.format(number=draw[0], size=4 + draw[1] % 5), usage=(300, 80))
    if "PATTERN:" in asked[-1]:
        return reply(REQUIREMENT, usage=(400, 30))
    if "Name two to eight" in asked[-1]:
        return reply("permute\nrelu\nadd", usage=(900, 10))
    if mistakes and draw[0] < 110:
        return MISTAKES[draw[1] % len(MISTAKES)]
    example = re.search(r"```python\n(.*?)```", asked[-1], re.S)
    if not example:
        return reply(WRITTEN.format(number=draw[1], size=4 + draw[2] % 5))
    return reply(f"```python\n{example[1]}\n{'# ' if draw[1] < 20 else ''}CHANGED = {draw[2]}\n```", usage=(200, 120))
