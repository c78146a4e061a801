"""Registry of the program generators, by name. Each is in its own file and is imported when it is first used."""

from __future__ import annotations

from driftline.core.registry import Registry
from driftline.generate.base import Generator

_BUILTIN = {
    "alone": "driftline.generate.lone_operators:LoneOperators",
    "graph": "driftline.generate.random_graph:RandomGraph",
    "chains": "driftline.generate.chains:Chains",
    "layers": "driftline.generate.layers.generator:Layers",
    "constructs": "driftline.generate.constructs:Constructs",
    "idioms": "driftline.generate.idioms.generator:Idioms",
    "optests": "driftline.generate.optests:OperatorTests",
    "mutate": "driftline.generate.mutate:Mutate",
    "llm": "driftline.generate.llm:ModelPrograms",
}

GENERATORS: Registry[Generator] = Registry("generator", _BUILTIN, "driftline.generators")


def usual_generators() -> list[str]:
    """Return the generators that a hunt uses when none is named."""
    return [name for name in GENERATORS if not GENERATORS.get(name).on_request]


def register_generator(cls: type[Generator]) -> type[Generator]:
    """Class decorator for plugins: `@register_generator`."""
    GENERATORS.register(cls.name, cls)
    return cls
