"""Pictures of scenes: spectrograms with the labelled boxes drawn on them.

::

    picture_sheet([Panel(audio, 16000, events), ...], Path("sheet.png"))

Only matplotlib's Agg canvas is used, through objects: no window, no global figure, nothing for a caller to close.
Names are shown as they are; nothing in them is read as markup.
"""

from __future__ import annotations

import colorsys
import logging
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthscape.errors import DatasetError
from synthscape.files import written_aside


@contextmanager
def _quiet_import() -> Iterator[None]:
    # With an unwritable home matplotlib keeps its font cache in a temporary folder, which is all right, and says so on
    # stderr, which is noise here.
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


with _quiet_import():
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

EVENT_COLUMNS: Final = ("onset_s", "offset_s", "low_hz", "high_hz", "species", "call_type", "snr_band_db", "audible")

# Told apart with any colour vision as well as ten can be, dark enough for white paper, coloured enough beside black.
_PALETTE: Final = (
    "#0b5fa5", "#d55e00", "#008a63", "#c2318f", "#b58400", "#2f9bd6", "#7b3fb5", "#8c5a2b", "#d62728", "#6b8e00",
)  # fmt: skip
_INK: Final = "#222222"
_DPI: Final = 130
_MOST_ROWS: Final = 150  # Agg draws up to 65 535 pixels
_WHITE_DB, _BLACK_DB = 3.0, 33.0  # above the background, where the grey scale starts and ends
_BOX_MARGIN_POINTS: Final = 1.8
_LONGEST_NAME: Final = 40


class Panel(NamedTuple):
    """One scene to draw.

    ``audio`` is float32 [samples]; ``events`` a DataFrame with the columns ``EVENT_COLUMNS``, times in seconds from
    the start of the audio, one row an event, none for an empty scene; ``scene_id`` the title, by default the one in
    the events' ``scene_id`` column.
    """

    audio: NDArray[np.float32]
    sample_rate: int
    events: pd.DataFrame
    scene_id: str = ""


def picture_sheet(
    scenes: Iterable[Panel | tuple[NDArray[np.float32], int, pd.DataFrame]],
    path: Path,
    *,
    columns: int = 3,
    title: str = "",
) -> Path:
    """Draw scenes as a sheet of spectrograms with their events boxed, into a PNG file.

    A box bounds [onset_s, offset_s) x [low_hz, high_hz] with a line 2 points outside of it (a whistle would vanish
    under the line), in the colour of its species, dashed where the event isn't audible, call type and band SNR beside
    it. The grey of a spectrogram runs from 3 to 33 dB above the 30th percentile of each frequency. Twelve scenes of
    10 s take about two seconds.

    Args:
        scenes: panels, or (audio, sample rate, events); drawn row by row.
        path: the PNG file; replaced if there.
        columns: panels in a row.
        title: shown above the sheet.

    Returns:
        ``path``.

    Raises:
        DatasetError: there is no scene, a scene has no samples, or its events lack a column.
        ValueError: no columns, or more than 150 rows.
    """
    panels = [Panel(*scene) for scene in scenes]
    if not panels:
        raise DatasetError("a picture sheet needs at least one scene, got none")
    if columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}")
    for panel in panels:
        _check(panel)
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    if rows > _MOST_ROWS:
        raise ValueError(
            f"a sheet has at most {_MOST_ROWS} rows, {len(panels)} scenes in {columns} columns make {rows}"
        )
    colours = species_colours(panel.events["species"] for panel in panels)
    legend_rows = math.ceil((len(colours) + 2) / max(1, round(1.6 * columns)))
    width_in = 5.2 * columns + 0.6
    bottom_in, top_in = 0.62 + 0.24 * legend_rows, 0.75 if title else 0.4
    height_in = 2.85 * rows + bottom_in + top_in
    with _drawing():
        figure = Figure(figsize=(width_in, height_in), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(
            rows,
            columns,
            left=0.6 / width_in,
            right=1 - 0.15 / width_in,
            bottom=bottom_in / height_in,
            top=1 - top_in / height_in,
            wspace=0.11,
            hspace=0.30,
        )
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(grid[divmod(i, columns)])
            _draw(axes, panel, colours)
            if i % columns == 0:
                axes.set_ylabel("frequency (kHz)", fontsize=8, color=_INK)
            if i + columns >= len(panels):
                axes.set_xlabel("time (s)", fontsize=8, color=_INK)
        if title:
            figure.text(
                0.6 / width_in, 1 - 0.18 / height_in, _shown(title, 120), fontsize=13, weight="bold", va="top",
                color=_INK, parse_math=False,
            )  # fmt: skip
        _legend(figure, colours, max(1, round(1.6 * columns)), 0.08 / height_in)
        _save(figure, path)
    return path


def scene_picture(
    audio: NDArray[np.float32], sample_rate: int, events: pd.DataFrame, path: Path, *, scene_id: str = ""
) -> Path:
    """Draw one scene as ``picture_sheet`` does, larger.

    Raises:
        DatasetError: the scene has no samples, or the events lack a column.
    """
    panel = Panel(audio, sample_rate, events, scene_id)
    _check(panel)
    colours = species_colours([events["species"]])
    with _drawing():
        figure = Figure(figsize=(11, 4.6), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        legend_rows = math.ceil((len(colours) + 2) / 5)
        axes = figure.add_axes(
            (0.06, (0.62 + 0.24 * legend_rows) / 4.6, 0.925, 0.93 - (0.62 + 0.24 * legend_rows) / 4.6)
        )
        _draw(axes, panel, colours)
        axes.set_xlabel("time (s)", fontsize=8, color=_INK)
        axes.set_ylabel("frequency (kHz)", fontsize=8, color=_INK)
        _legend(figure, colours, 5, 0.08 / 4.6)
        _save(figure, path)
    return path


def species_colours(columns: Iterable[Iterable[Any]]) -> dict[str, str]:
    """A colour for every species named in any of the columns, the same for the same set of names."""
    names = sorted({_name(value) for column in columns for value in column})
    if len(names) <= len(_PALETTE):
        return dict(zip(names, _PALETTE, strict=False))
    hues = (colorsys.hls_to_rgb(i / len(names), (0.38, 0.52)[i % 2], 0.85) for i in range(len(names)))
    return {name: "#" + "".join(f"{round(255 * c):02x}" for c in hue) for name, hue in zip(names, hues, strict=True)}


def spectrogram_db(
    audio: NDArray[np.float32], sample_rate: int, frames: int = 1200
) -> tuple[NDArray[np.float32], float, float]:
    """Power spectrogram in dB for drawing: Hann windows of about 30 ms, zero-padded by half a window at the ends.

    Returns:
        float32 [bins, frames]; seconds between frames (the first is centred on time 0); Hz between bins.
    """
    window = 2 ** max(5, round(math.log2(0.030 * sample_rate)))
    hop = max(1, audio.size // frames)
    padded = np.pad(np.asarray(audio, dtype=np.float32), window // 2)
    slices = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    spectrum = np.fft.rfft(slices * np.hanning(window).astype(np.float32), axis=1)
    power = np.abs(spectrum.T) ** 2
    decibels = 10 * np.log10(power + 1e-14 * max(float(power.max()), 1e-30))
    return decibels.astype(np.float32), hop / sample_rate, sample_rate / window


def _check(panel: Panel) -> None:
    where = f"scene {panel.scene_id!r}" if panel.scene_id else "a scene"
    missing = [name for name in EVENT_COLUMNS if name not in panel.events.columns]
    if missing:
        raise DatasetError(f"{where} can't be drawn: its events lack the column(s) {', '.join(missing)}")
    if np.ndim(panel.audio) != 1 or panel.audio.size == 0:
        raise DatasetError(f"{where} can't be drawn: expected audio [samples], got shape {np.shape(panel.audio)}")


def _draw(axes: Axes, panel: Panel, colours: dict[str, str]) -> None:
    duration_s = panel.audio.size / panel.sample_rate
    nyquist_khz = panel.sample_rate / 2000
    image, step_s, step_hz = spectrogram_db(panel.audio, panel.sample_rate)
    # Every frequency relative to its own quieter moments: a rumble hides nothing, black is what a band SNR sees.
    image -= np.percentile(image, 30, axis=1, keepdims=True).astype(np.float32)
    n_bins, n_frames = image.shape
    axes.imshow(
        image,
        origin="lower",
        aspect="auto",
        cmap="gray_r",
        vmin=_WHITE_DB,
        vmax=_BLACK_DB,
        extent=(-step_s / 2, (n_frames - 0.5) * step_s, -step_hz / 2000, (n_bins - 0.5) * step_hz / 1000),
    )
    axes.set_xlim(0, duration_s)
    axes.set_ylim(0, nyquist_khz)
    axes.tick_params(labelsize=7.5, length=2.5, color="#888888", labelcolor=_INK)
    for spine in axes.spines.values():
        spine.set_color("#888888")
        spine.set_linewidth(0.7)
    events = panel.events.sort_values("onset_s", kind="stable").to_dict("records")
    boxes = [_box(axes, event, colours[_name(event["species"])], nyquist_khz) for event in events]
    taken: list[Bbox] = []
    for event, box in zip(events, boxes, strict=True):
        words = [] if pd.isna(event["call_type"]) else [_shown(event["call_type"], 18)]
        if not pd.isna(event["snr_band_db"]):
            words.append(_decibels(float(event["snr_band_db"])))
        if words:
            _label(axes, " ".join(words), colours[_name(event["species"])], box, boxes, taken)
    scene_id = panel.scene_id or (str(events[0]["scene_id"]) if events and "scene_id" in events[0] else "scene")
    count = {0: "no events", 1: "1 event"}.get(len(events), f"{len(events)} events")
    axes.set_title(
        f"{_shown(scene_id)}  ({count})", loc="left", fontsize=9, pad=4, weight="bold", color=_INK, parse_math=False
    )


def _box(axes: Axes, event: dict[Any, Any], colour: str, nyquist_khz: float) -> Bbox:
    """Draw an event's box, its line just outside of what it bounds; give it in pixels."""
    low_khz = 0.0 if pd.isna(event["low_hz"]) else float(event["low_hz"]) / 1000
    high_khz = nyquist_khz if pd.isna(event["high_hz"]) else float(event["high_hz"]) / 1000
    corners = [(float(event["onset_s"]), low_khz), (float(event["offset_s"]), high_khz)]
    margin = _BOX_MARGIN_POINTS * _figure(axes).dpi / 72
    box = Bbox(axes.transData.transform(corners)).padded(margin)
    audible = pd.isna(event["audible"]) or bool(event["audible"])
    # In data units again, so that the box stays on the call whatever happens to the axes.
    (x0, y0), (x1, y1) = axes.transData.inverted().transform(box.get_points())
    place = ((x0, y0), x1 - x0, y1 - y0)
    # the white line under the coloured one keeps it legible on a loud call
    axes.add_patch(Rectangle(*place, facecolor="none", edgecolor="white", linewidth=2.8, alpha=0.75))
    dashes = "-" if audible else (0, (3, 1.6))
    axes.add_patch(Rectangle(*place, facecolor="none", edgecolor=colour, linewidth=1.4, linestyle=dashes))
    return box


def _label(axes: Axes, words: str, colour: str, box: Bbox, boxes: list[Bbox], taken: list[Bbox]) -> None:
    """Write beside the box, at the nearest place above or below it that no other label has, nor another box if near."""
    points = _figure(axes).dpi / 72
    text = axes.annotate(
        words, (0, 0), xycoords="figure pixels", fontsize=6.8, color=colour, weight="bold", va="bottom",
        annotation_clip=False, parse_math=False,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.78, "pad": 0.6},
    )  # fmt: skip
    size = text.get_window_extent()
    frame = axes.get_window_extent()
    left = max(min(box.x0, frame.x1 - size.width - points), frame.x0 + points)
    step = size.height + 1.5 * points
    places = [y for i in range(12) for y in (box.y1 + 2 * points + i * step, box.y0 - 1.5 * points - (i + 1) * step)]
    places = [y for y in places if frame.y0 <= y and y + size.height <= frame.y1] or [frame.y1 - step]
    spots = [Bbox.from_bounds(left, y, size.width, size.height) for y in places]
    free = [spot for spot in spots if not any(spot.overlaps(other) for other in taken)] or spots
    clear = [spot for spot in free[:5] if not any(spot.overlaps(other) for other in boxes)]
    spot = (clear or free)[0]
    taken.append(spot)
    text.set_position((spot.x0, spot.y0))


def _figure(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure


def _legend(figure: Figure, colours: dict[str, str], columns: int, bottom: float) -> None:
    handles: list[Any] = [Patch(facecolor=colour, edgecolor="none") for colour in colours.values()]
    handles += [
        Line2D([], [], color=_INK, linewidth=1.5),
        Line2D([], [], color=_INK, linewidth=1.5, linestyle=(0, (3, 1.6))),
    ]
    names = [*colours, "audible", "not audible"]
    # Labels are set afterwards: a legend leaves out names that start with an underscore.
    legend = figure.legend(
        handles, ["-"] * len(names), loc="lower center", bbox_to_anchor=(0.5, bottom), ncols=min(columns, len(names)),
        frameon=False, fontsize=8.5, handlelength=1.6, columnspacing=1.6,
    )  # fmt: skip
    for i, (text, name) in enumerate(zip(legend.get_texts(), names, strict=True)):
        _as_is(text, _shown(name))
        if i < len(colours):
            text.set_fontstyle("italic")


def _as_is(text: Text, words: str) -> None:
    text.set_parse_math(False)
    text.set_text(words)


def _decibels(level_db: float) -> str:
    digits = 0 if abs(level_db) >= 0.95 else 1  # near 0 the sign decides what is audible, so no "-0"
    return f"{level_db:+.{digits}f} dB".replace("-", "\N{MINUS SIGN}")


def _name(value: Any) -> str:
    return "unnamed" if pd.isna(value) else str(value)


def _shown(name: Any, longest: int = _LONGEST_NAME) -> str:
    """A name on one line, of bounded length; what can't be printed becomes a question mark."""
    words = "".join(letter if letter.isprintable() else "?" for letter in str(name))
    return words if len(words) <= longest else words[: longest - 1] + "…"


@contextmanager
def _drawing() -> Iterator[None]:
    with rc_context({"text.usetex": False}), warnings.catch_warnings():
        # A script our font lacks is drawn as boxes; the label tables have the name.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing from")
        yield


def _save(figure: Figure, path: Path) -> None:
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=_DPI, metadata={"Software": None})
