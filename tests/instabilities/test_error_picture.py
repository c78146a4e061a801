"""The picture of the worst errors names its models: all where there is room, else the worst."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("matplotlib")

from driftline.instabilities import pictures
from driftline.instabilities.counting import Counts
from driftline.instabilities.records import InputRow, ModelRecord, RuntimeRecord


def record(number: int) -> ModelRecord:
    rows = (InputRow(0, "ok", Counts(elements=4, worst_error=10.0 ** -(number % 8))),)
    runtimes = tuple(RuntimeRecord(name, name, "1", rows) for name in ("pytorch", "onnx"))
    return ModelRecord(f"m{number}", expression=f"exp(log(x{number}))", runtimes=runtimes)


@pytest.mark.parametrize(("count", "named"), [(6, 6), (300, 12)])
def test_models_are_named(count: int, named: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    real = pictures.as_png

    def kept(figure: Any) -> bytes:
        figures.append(figure)
        return real(figure)

    monkeypatch.setattr(pictures, "as_png", kept)
    assert pictures.draw_errors([record(number) for number in range(count)], "run").startswith(b"\x89PNG")
    (axes,) = figures[0].axes
    told = [label.get_text() for label in axes.get_xticklabels()] + [text.get_text() for text in axes.texts]
    assert "\n".join(told).count("exp(log(") == named
