"""Pictures of scenes: boxes sit where the labels say, names are shown as they are, nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from synthscape.errors import DatasetError
from synthscape.report.pictures import Panel, picture_sheet, scene_picture, species_colours, spectrogram_db

RATE = 16000


def _tone(onset_s: float, offset_s: float, hz: float, duration_s: float = 4.0) -> NDArray[np.float32]:
    at = np.arange(int(duration_s * RATE)) / RATE
    noise = np.random.default_rng(0).normal(0, 1e-3, at.size)
    edge = np.sin(np.pi / 2 * np.clip(np.minimum(at - onset_s, offset_s - at) / 0.008, 0, 1)) ** 2  # soft: no click
    return np.asarray(0.3 * edge * np.sin(2 * np.pi * hz * at) + noise, dtype=np.float32)


def _events(**changes: Any) -> pd.DataFrame:
    row = {
        "scene_id": "scene-1",
        "onset_s": 1.0,
        "offset_s": 2.0,
        "low_hz": 2800.0,
        "high_hz": 3200.0,
        "species": "Synthetica sibilans",
        "call_type": "whistle",
        "snr_band_db": 4.4,
        "audible": True,
    }
    return pd.DataFrame([{**row, **changes}])


def _pixels(path: Path) -> NDArray[np.float64]:
    return np.asarray(imread(path), dtype=np.float64)[..., :3]


def _is_colour(pixels: NDArray[np.float64], colour: str) -> NDArray[np.bool_]:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.asarray(np.abs(pixels - rgb).max(axis=-1) < 0.08)


def test_box_bounds_the_call(tmp_path: Path) -> None:
    """In the picture, the dark pixels of a tone lie inside its coloured box, which is hardly larger."""
    events = _events(snr_band_db=np.nan, call_type=None)
    pixels = _pixels(scene_picture(_tone(1.0, 2.0, 3000), RATE, events, tmp_path / "a.png"))
    plot = pixels[: int(pixels.shape[0] * 0.8)]
    line = np.argwhere(_is_colour(plot, next(iter(species_colours([["x"]]).values()))))
    (top, left), (bottom, right) = line.min(axis=0), line.max(axis=0)
    inside = plot[top + 4 : bottom - 3, left + 4 : right - 3].mean(axis=-1)
    around = np.ones(plot.shape[:2], dtype=bool)
    around[top - 6 : bottom + 7, left - 6 : right + 7] = False
    around[: int(plot.shape[0] * 0.12)] = False  # the title
    around[:, : int(plot.shape[1] * 0.07)] = False  # the axis

    assert (inside < 0.2).mean() > 0.15
    assert (plot.mean(axis=-1)[around] < 0.2).mean() < 0.002
    dark = np.argwhere(inside < 0.2)
    assert dark[:, 1].min() < 12
    assert dark[:, 1].max() > inside.shape[1] - 13


def test_spectrogram_has_the_tone_where_it_is() -> None:
    """The loudest bin is the tone's, and it rises and falls by 6 dB in the middle of the tone's 8 ms edges."""
    image, step_s, step_hz = spectrogram_db(_tone(1.0, 2.0, 3000), RATE)
    row, column = np.unravel_index(int(image.argmax()), image.shape)
    loud = np.flatnonzero(image[row] > image.max() - 6.5) * step_s

    assert abs(row * step_hz - 3000) <= step_hz
    assert 1.0 < column * step_s < 2.0
    assert loud[0] == pytest.approx(1.004, abs=0.003)
    assert loud[-1] == pytest.approx(1.996, abs=0.003)


def test_inaudible_events_are_dashed(tmp_path: Path) -> None:
    """A dashed box has fewer coloured pixels than a solid one at the same place."""
    count = []
    for audible in (True, False):
        events = _events(audible=audible, snr_band_db=np.nan, call_type=None)
        path = scene_picture(_tone(1, 2, 3000), RATE, events, tmp_path / f"{audible}.png")
        pixels = _pixels(path)
        count.append(_is_colour(pixels[: int(pixels.shape[0] * 0.8)], "#0b5fa5").sum())

    assert 0.3 < count[1] / count[0] < 0.9


NAMES = [
    "$x^2$",
    "$unbalanced",
    r"\frac{1}{2}$$",
    "_hidden",
    "<b>bold</b> & co",
    "Κόσσυφος",
    "乌鸫",
    "a\nb\tc",
    "n" * 500,
    "",
    "%s {x}",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(name: str, tmp_path: Path) -> None:
    """Markup, other scripts, control characters and very long names neither fail nor warn, wherever they stand."""
    events = _events(species=name, call_type=name, scene_id=name)
    scene_picture(_tone(1, 2, 3000), RATE, events, tmp_path / "one.png", scene_id=name)
    picture_sheet([(_tone(1, 2, 3000), RATE, events)], tmp_path / "sheet.png", title=name)

    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    assert (tmp_path / "one.png").stat().st_size > 10_000


def test_markup_is_not_read_as_mathematics(tmp_path: Path) -> None:
    """The dollar signs of ``$a$$a$$a$`` are drawn: it takes far more ink than ``aaa``, which a formula would not."""
    widths = []
    for name in ("$a$$a$$a$", "aaa"):
        events = _events(species="x", call_type=name, snr_band_db=np.nan)
        pixels = _pixels(scene_picture(_tone(1, 2, 3000), RATE, events, tmp_path / "a.png"))
        plot = pixels[: int(pixels.shape[0] * 0.8)]
        widths.append(int(_is_colour(plot, "#0b5fa5").sum()))

    assert widths[0] > widths[1] + 80


def test_sheet_has_any_number_of_scenes_with_and_without_events(tmp_path: Path) -> None:
    """One to seven scenes of several lengths and rates, some empty, are all drawn."""
    for n in (1, 2, 7):
        scenes = [
            Panel(_tone(1, 2, 3000, 3.0 + i), RATE, _events() if i % 2 else _events().iloc[:0], f"scene {i}")
            for i in range(n)
        ]
        pixels = _pixels(picture_sheet(scenes, tmp_path / f"{n}.png"))

        assert pixels.shape[1] > 600 * min(n, 3)
        assert pixels.shape[0] > 300 * -(-n // 3)


def test_scenes_at_any_rate_and_of_any_length(tmp_path: Path) -> None:
    """From a scene of one sample to bats at 256 kHz, and digital silence."""
    for samples, rate in ((1, 16000), (100, 8000), (256_000, 256_000), (48_000, 48_000)):
        scene_picture(np.zeros(samples, dtype=np.float32), rate, _events().iloc[:0], tmp_path / "a.png")
    scene_picture(
        _tone(1, 2, 3000), 256_000, _events(onset_s=0.05, offset_s=0.1, high_hz=120_000.0), tmp_path / "a.png"
    )

    assert _pixels(tmp_path / "a.png").shape[1] > 1000


def test_unknown_values_are_drawn_open(tmp_path: Path) -> None:
    """Null band, SNR, audible, call type and species are drawn as what is known: a box over all frequencies."""
    events = _events(low_hz=None, high_hz=None, snr_band_db=None, audible=None, call_type=None, species=None)
    pixels = _pixels(scene_picture(_tone(1, 2, 3000), RATE, events, tmp_path / "a.png"))
    plot = pixels[: int(pixels.shape[0] * 0.8)]
    line = np.argwhere(_is_colour(plot, "#0b5fa5"))

    assert np.ptp(line[:, 0]) > 0.8 * plot.shape[0]


def test_many_species_have_colours_of_their_own() -> None:
    """Up to 60 species no two share a colour, and the colours depend on the set of names only."""
    for n in (1, 9, 10, 11, 60):
        names = [f"species {i}" for i in range(n)]
        colours = species_colours([names])

        assert len(set(colours.values())) == n
        assert colours == species_colours([names[::-1], names])


def test_same_input_gives_the_same_file(tmp_path: Path) -> None:
    """Pictures are reproducible to the byte."""
    one, two = (scene_picture(_tone(1, 2, 3000), RATE, _events(), tmp_path / f"{i}.png").read_bytes() for i in "ab")

    assert one == two


def test_wrong_input_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    """A missing column, no scenes, no samples or a bad column count: an error that says so, and no file."""
    path = tmp_path / "a.png"
    with pytest.raises(DatasetError, match=r"'seven'.*high_hz"):
        scene_picture(_tone(1, 2, 3000), RATE, _events().drop(columns="high_hz"), path, scene_id="seven")
    with pytest.raises(DatasetError, match="at least one scene"):
        picture_sheet([], path)
    with pytest.raises(DatasetError, match=r"shape \(0,\)"):
        scene_picture(np.zeros(0, dtype=np.float32), RATE, _events(), path)
    with pytest.raises(ValueError, match="columns"):
        picture_sheet([Panel(_tone(1, 2, 3000), RATE, _events())], path, columns=0)

    with pytest.raises(ValueError, match="at most 150 rows"):
        picture_sheet([Panel(_tone(1, 2, 3000), RATE, _events())] * 151, path, columns=1)

    assert list(tmp_path.iterdir()) == []


def test_unwritable_home_is_no_trouble_and_pyplot_is_not_touched(tmp_path: Path) -> None:
    """With nowhere to keep matplotlib's cache a picture is made, silently, without pyplot's global state."""
    script = (
        "import sys, numpy as np, pandas as pd, pathlib\n"
        "from synthscape.report.pictures import EVENT_COLUMNS, scene_picture\n"
        "events = pd.DataFrame(columns=list(EVENT_COLUMNS))\n"
        "scene_picture(np.ones(9000, np.float32), 8000, events, pathlib.Path('a.png'))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/dev/null/nowhere",
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'kernels'}",
    }
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "a.png").is_file()
