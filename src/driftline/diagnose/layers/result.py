"""The result of a view: the error of every layer that was looked at, where it first leaves the band, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from driftline.diagnose.layers.measure import BAND, Errors
from driftline.programs.taps.tap import Tap


@dataclass(frozen=True)
class Layer:
    """One value along the graph. `own` is the error of this layer alone, run on the values of the reference."""

    number: int
    tap: Tap
    errors: Errors
    output: bool = False  # a result of the program
    end: bool = False  # of a block
    own: Errors | None = None
    runs_as: str = ""  # its name in the file that runs, where that is another

    @property
    def beyond(self) -> bool:
        return self.errors.beyond

    @property
    def title(self) -> str:
        """The module and operator, as in `encoder.layer.2.attention.query: MatMul`; the value's name if no module is
        known.
        """
        return f"{self.tap.scope or self.tap.value}: {self.tap.op}" if self.tap.op else self.tap.value

    def to_json(self) -> dict[str, Any]:
        tap, own = self.tap, self.own
        return {
            "number": self.number,
            "value": tap.value,
            "node": tap.node,
            "op": tap.op,
            "scope": tap.scope,
            "dtype": tap.dtype,
            "shape": list(tap.shape),
            "output": self.output,
            "end_of_block": self.end,
            "runs_as": self.runs_as,
            "sigma": self.errors.sigma,
            "rms_sigma": self.errors.rms,
            "relative": self.errors.relative,
            "beyond": self.errors.beyond,
            "what": self.errors.what,
            "own_sigma": own.sigma if own else None,
            "own_relative": own.relative if own else None,
            "own_beyond": own.beyond if own else None,
        }


@dataclass(frozen=True)
class View:
    """The layer-by-layer view of one target."""

    target: str
    program: str
    reference: str  # the reference program, if it is not the program that runs
    verdict: str
    layers: tuple[Layer, ...] = ()
    values: int = 0  # float results along the graph
    left_out: int = 0  # those of them that were not looked at
    taps: str = ""  # `all`, or `blocks`
    matched: str = ""  # how values of two programs were matched
    observer: str = ""  # the effect of the taps on the results
    note: str = ""  # why there is no more
    seconds: float = 0.0

    @property
    def first(self) -> Layer | None:
        return next((layer for layer in self.layers if layer.beyond), None)

    @property
    def made_at(self) -> tuple[Layer, ...]:
        """The layers that are wrong when they run alone."""
        return tuple(layer for layer in self.layers if layer.own and layer.own.beyond)

    @property
    def explained(self) -> bool | None:
        """True if the values inside explain the failure; None if the program did not fail."""
        if self.verdict != "fail":
            return None
        first = self.first
        return first is not None and (not first.output or bool(self.made_at))

    def sentences(self) -> Iterator[str]:
        """Yield sentences that sum up the view, the most important first."""
        if not self.layers:
            yield self.note or "No value along the graph could be looked at."
            return
        yield from self._where()
        if self.observer:
            yield self.observer
        if "shape" in self.matched:
            yield f"Values of the two programs were matched {self.matched}: a layer named here may be one beside it."
        if self.left_out:
            yield f"{self.left_out} of {self.values} values along the graph were not looked at."
        if self.note:
            yield self.note

    def _where(self) -> Iterator[str]:
        first = self.first
        if first is None:
            yield from self._within()
            if self.verdict == "fail":
                yield "The failure of the program does not show at any of these places."
            return
        before = [layer for layer in self.layers if layer.number < first.number]
        worst = max((layer.errors.sigma or 0.0 for layer in before), default=0.0)
        count = f"{len(before)} layers" if len(before) != 1 else "1 layer"
        so_far = f" Before it, {count} looked at, the worst off by {worst:.2g} sigma." if before else ""
        size = f"{first.errors.sigma:.3g} sigma" if first.errors.sigma is not None else first.errors.what
        what = "output" if first.output else "value"
        yield (
            f"First place beyond the band of legal rounding ({BAND:g} sigma): {first.title} ({what} {first.tap.value}),"
            f" off by {size}.{so_far}"
        )
        yield from self._made()
        yield from self._steps()
        if self.verdict == "pass":
            yield "The result of the program passes, it is within the band again: what comes after evens this out."
        elif self.explained:
            yield "This explains the failure of the program: the error is carried from there to the result."

    def _within(self) -> Iterator[str]:
        """Yield sentences for a view in which no value is beyond the band."""
        looked = [layer for layer in self.layers if not layer.output]
        worst = max((layer.errors.sigma or 0.0 for layer in self.layers), default=0.0)
        steps = ", or of steps of re-quantisation" if any(layer.errors.quanta for layer in self.layers) else ""
        band = f"within the band of legal rounding ({BAND:g} sigma){steps}; the worst is {worst:.2g} sigma"
        if not looked:
            yield f"No value inside was looked at; the results are {band}."
        elif not self.left_out:
            yield f"Every layer is {band}."
        else:
            kind = "block end" if all(layer.end for layer in looked) else "value"
            seen = f"{len(looked)} {kind}s that were" if len(looked) != 1 else f"one {kind} that was"
            more = "" if self.taps == "all" else "; --taps all looks at every value"
            yield f"The {seen} looked at, and the results, are {band}{more}."
        unjudged = sum(layer.errors.sigma is None and not layer.errors.quanta for layer in self.layers)
        if unjudged:
            yield f"{unjudged} of these could not be judged."
        yield from self._steps()

    def _steps(self) -> Iterator[str]:
        """Yield a sentence on values that are within the band only if quantised values may be some quanta off."""
        stepped = [layer for layer in self.layers if layer.errors.quanta]
        if not stepped:
            return
        most = max(layer.errors.quanta for layer in stepped)
        size = "one quantum" if most == 1 else f"up to {most} quanta"
        count = f"{len(stepped)} of the values differ" if len(stepped) != 1 else "One of the values differs"
        yield (
            f"{count} by more than rounding alone, but by no more than steps of re-quantisation: quantised values that"
            f" come out {size} off, as kernels on integers make them. The result passes without allowing for that, so"
            " it is not called an error."
        )

    def _made(self) -> Iterator[str]:
        asked = [layer for layer in self.layers if layer.own]
        if not asked:
            return
        made = self.made_at
        if made:
            names = ", ".join(layer.title for layer in made[:3]) + (f" and {len(made) - 3} more" * (len(made) > 3))
            alone = "itself" if len(made) == 1 else "themselves"
            rest = _others([layer for layer in asked if layer not in made])
            yield f"Fed with the values of the reference, wrong by {alone}: {names}.{rest}"
        else:
            each = f"each of the {len(asked)} layers there" if len(asked) != 1 else "the one layer there"
            yield (
                f"Fed with the values of the reference, {each} is right by itself: the"
                " error is made when several are compiled together, or adds up over them."
            )

    def to_json(self) -> dict[str, Any]:
        first = self.first
        return {
            "target": self.target,
            "program": self.program,
            "reference": self.reference,
            "verdict": self.verdict,
            "band": BAND,
            "first": first.number if first else None,
            "made_at": [layer.number for layer in self.made_at],
            "explained": self.explained,
            "observer": self.observer,
            "taps": self.taps,
            "matched": self.matched,
            "values": self.values,
            "left_out": self.left_out,
            "sentences": list(self.sentences()),
            "layers": [layer.to_json() for layer in self.layers],
            "note": self.note,
            "seconds": round(self.seconds, 2),
        }


def _others(layers: Sequence[Layer]) -> str:
    """Describe the other layers of a bad block, which are right alone; some carry the error on."""
    carrying = sum(layer.beyond for layer in layers)
    if not layers:
        return ""
    if len(layers) == 1:
        return f" The other layer of that block is right by itself{' and carries the error on' * carrying}."
    told = f" The other {len(layers)} of that block are right by themselves"
    if carrying == len(layers):
        return f"{told} and carry the error on."
    if not carrying:
        return f"{told}."
    return f"{told}; {carrying} of them {'carries' if carrying == 1 else 'carry'} the error on."
