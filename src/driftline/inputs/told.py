"""Notes for the user about the inputs: what they hold, their sizes, and which options to give where sizes were
guessed."""

from __future__ import annotations

from driftline.core.text import first_line
from driftline.inputs.make import InputMaker
from driftline.inputs.plan import InputPlan

_WORDS = {
    "mask": "ones, then padding",
    "padding": "zeros, then padding",
    "flags": "zeros and ones",
    "positions": "positions",
    "exact": "as in the example",
}


def about_inputs(maker: InputMaker) -> tuple[str, ...]:
    """Return notes on what the inputs hold and why, and on guessed sizes; empty if only the types are known."""
    plans = {plan.spec.name: plan for plan in maker.plans(0)}
    told = [f"{name} {_words(plans[name])} ({why})" for name, why in maker.known.why.items() if name in plans]
    notes = [f"Inputs: {'; '.join(told)}."] if told else []
    chosen = maker.chosen(0)
    if chosen.guessed:
        limits = maker.known.limits
        sizes = [f"{n}={chosen.sizes[n]}{f' (at most {limits[n]})' if n in limits else ''}" for n in chosen.guessed]
        notes.append(f"Sizes: {', '.join(sizes)}; choose others with --dim {chosen.guessed[-1]}=SIZE.")
    return tuple(notes)


def about_failure(maker: InputMaker, failure: str) -> str:
    """Return a message that the guessed sizes may be why the program raises; an empty string if no size was guessed."""
    chosen = maker.chosen(0)
    unnamed = [s.name for s in maker.specs if -1 in s.shape and s.name not in maker.example]
    if not chosen.guessed and not unnamed:
        return ""
    if chosen.guessed:
        sizes = ", ".join(f"{n}={chosen.sizes[n]}" for n in chosen.guessed)
        ask = f"--dim {','.join(f'{n}=SIZE' for n in chosen.guessed)}"
    else:
        sizes = ", ".join(f"{n} {list(chosen.shapes[n])}" for n in unnamed)
        ask = " ".join(f"--shape {n}=..." for n in unnamed)
    return (
        f"The program itself raises on inputs of the sizes that Driftline chose ({sizes}): {first_line(failure, 160)}."
        f" Say which sizes it takes with {ask}, or give inputs with --inputs FILE.npz."
    )


def _words(plan: InputPlan) -> str:
    rule, _, bound = plan.values.partition(":")
    if rule == "index":
        return f"0 to {int(bound) - 1}"
    if rule == "range":
        low, high = bound.split(":")
        return f"{low} to {high}" if low != high else low
    return _WORDS.get(rule, rule)
