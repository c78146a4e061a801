"""The prompts. When the text of `describe_messages` changes, increase `VERSION`, so that requirements are asked for
again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftline.core.rule import Rule
from driftline.llm.chat import Message
from driftline.llm.rules import RuleText

VERSION = 1
_LONGEST = 6000  # characters of a source that are shown
_LONGEST_ERROR = 600

_CHOOSER = "You choose operators for a program that tests a compiler. Answer with names only, one in a line."

_ANALYST = (
    "You know the source of the {compiler}. You read one of its {rules} and say exactly which programs it rewrites. Be"
    " brief and precise. Do not write a whole program."
)
_AUTHOR = (
    "You write small {framework} programs that test a compiler. Answer with one Python code block that holds the whole"
    " program, and nothing else."
)
_FORM = """\
Rules for the program:
- Import {imports}.
- It has a function `model`{or_class}.
- It ends with a function `program()` without arguments that returns the model and a tuple of example inputs, as in
  `return model, ({example},)`.
- The model returns tensors. It draws no random numbers, prints nothing and reads no files. Tensors are small."""


@dataclass(frozen=True)
class PromptWords:
    """The words of a prompt that depend on the form of the programs (torch, ONNX, ...)."""

    framework: str
    compiler: str
    rules: str
    imports: str
    example: str
    or_class: str = ""

    @property
    def analyst(self) -> str:
        return _ANALYST.format(compiler=self.compiler, rules=self.rules)

    @property
    def author(self) -> str:
        return _AUTHOR.format(framework=self.framework)

    @property
    def form(self) -> str:
        return _FORM.format(imports=self.imports, or_class=self.or_class, example=self.example)


WORDS: Mapping[str, PromptWords] = {
    "torch": PromptWords(
        "PyTorch",
        "TorchInductor compiler of PyTorch",
        "rewrite rules",
        "torch and nothing else (torch.nn and torch.nn.functional are fine)",
        "torch.randn(4, 8)",
        ", or a class `Model(torch.nn.Module)`",
    ),
    "jax": PromptWords(
        "JAX",
        "XLA compiler, which compiles JAX programs for CPUs",
        "passes over HLO",
        "jax and nothing else (jax.numpy as jnp, jax.lax, jax.nn and numpy are fine); do not call jax.jit",
        "jnp.ones((4, 8))",
    ),
    "tensorflow": PromptWords(
        "TensorFlow",
        "compilers of TensorFlow: XLA and the converter of TensorFlow Lite",
        "passes",
        "tensorflow as tf and nothing else (numpy is fine); do not use tf.function",
        "tf.ones([4, 8])",
    ),
}

# What to change in a program: one of these is drawn for each request, so that answers differ.
IDEAS = (
    "other sizes of the inputs, with a size of 1 or an odd size among them",
    "another dtype of the inputs: float64, float16, bfloat16, or integers where that makes sense",
    "another dim or axis of an operator, perhaps a negative one",
    "a keyword argument that has its default value now",
    "inputs that broadcast against each other",
    "a second use of a value inside the pattern, which is returned too",
    "a transposed, sliced or expanded input, so that it is not contiguous",
    "one more operator before the pattern",
    "one more operator after the pattern, whose result is returned",
    "the pattern twice in a row, the second one on the result of the first",
    "a constant where there is a tensor, or a tensor where there is a constant",
    "an operator of the pattern written in another way that means the same",
    "zero, negative or very large constants",
    "more or fewer dimensions of the inputs",
)


def describe_messages(rule: Rule, text: RuleText) -> tuple[Message, ...]:
    """Ask what a program must look like for the rule to fire."""
    parts = [f"The rewrite rule `{rule.name}`, in `{rule.group}`."]
    if text.tree:
        parts.append(f"Its pattern, as a tree of operators in which Arg and KeywordArg are holes:\n{_cut(text.tree)}")
    if text.words:
        parts.append(f"What it does: {text.words}")
    for title, source in (
        ("Its source", text.source),
        ("What it puts in the place", text.replacement),
        ("What it asks besides the pattern", text.condition),
    ):
        if source:
            parts.append(f"{title}:\n{_block(_cut(source))}")
    if rule.needs:
        parts.append("Options that are set: " + ", ".join(f"{key}={value}" for key, value in rule.needs))
    words = WORDS[text.form]
    parts.append(
        "Answer in two parts and nothing else.\n"
        f"PATTERN:\nthe shortest {words.framework} code that the rule rewrites, as a few lines of pseudo-code\n"
        "CONSTRAINTS:\n- one line for each condition: dtypes, ranks, sizes, what must be constant, how often a value"
        " may be used"
    )
    return Message("system", words.analyst), Message("user", "\n\n".join(parts))


def change_messages(rule: Rule, example: str, idea: str, form: str) -> tuple[Message, ...]:
    """Ask for a changed version of a program that fires the rule. The idea comes last, so that servers can cache the
    common beginning of requests."""
    asked = (
        f"{WORDS[form].form}\n\n"
        f"This program makes the rewrite rule `{rule.name}` of the compiler fire:\n{_block(example)}\n"
        f"Write a changed version of it that still contains the pattern which the rule looks for. Change this: {idea}."
    )
    return Message("system", WORDS[form].author), Message("user", asked)


def write_messages(rule: Rule, requirement: str, examples: Sequence[str], idea: str, form: str) -> tuple[Message, ...]:
    """Ask for a new program from the requirement and examples."""
    shown = "\n".join(_block(example) for example in examples)
    asked = f"{WORDS[form].form}\n\nA compiler has the rewrite rule `{rule.name}`. What a program needs for it to"
    asked += f" fire:\n{requirement}\n\n"
    asked += f"Programs that fire it:\n{shown}\n\n" if examples else ""
    asked += f"Write a new program that makes the rule fire. Use {idea}."
    return Message("system", WORDS[form].author), Message("user", asked)


def sketch_messages(rule: Rule, requirement: str, operators: Sequence[str]) -> tuple[Message, ...]:
    """Ask for a list of operators, from which Driftline makes a program. The operator names come first, so that servers
    can cache them."""
    asked = (
        f"These operators exist:\n{', '.join(operators)}\n\n"
        f"A compiler has the rewrite rule `{rule.name}`. What a program needs for it to fire:\n{requirement}\n\n"
        "Name two to eight of them, in the order in which a program that makes the rule fire would apply them. Answer"
        " like this, one name in a line and nothing else:\nmatmul\nadd\nrelu"
    )
    return Message("system", _CHOOSER), Message("user", asked)


def repair_messages(asked: Sequence[Message], answer: str, error: str) -> tuple[Message, ...]:
    """Ask for a correction of a program that does not run, given its error."""
    told = f"This program does not run:\n{error[:_LONGEST_ERROR]}\nCorrect it. Answer with the whole program."
    return *asked, Message("assistant", answer), Message("user", told)


def _block(text: str) -> str:
    return f"```python\n{text.rstrip()}\n```"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "\n[...]"
