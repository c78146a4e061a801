"""Notes about compilers that are slow for the size of the program; never a failure. `driftline perf` measures them."""

from __future__ import annotations

from driftline.checking.checker import CheckOutcome

LONG = 60.0  # seconds of compilation, from which on there is a note
MANY_TIMES = 1000.0  # times as long as the unoptimised run


def slow_compilations(outcome: CheckOutcome) -> list[str]:
    """Return a sentence for each target that took long to compile a program whose unoptimised run is short."""
    unoptimised = sum(sample.seconds for sample in outcome.reference.samples)
    notes = []
    for row in outcome.results:
        spent = row.execution.durations.get("compile", 0.0)
        if unoptimised and spent >= max(LONG, MANY_TIMES * unoptimised):
            beside = f"the unoptimised run takes {max(unoptimised, 0.001):.2g} s"
            notes.append(f"{row.target}: compiling took {spent:.0f} s, {beside} (`driftline perf` measures that).")
    return notes
