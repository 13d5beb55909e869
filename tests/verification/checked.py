"""Scenes of a spec rendered with stems, measured, and reduced to tables that tests look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthscape import SceneGenerator, Scenes
from tests.verification.measure import Floats, measure_events, measure_scenes, pcm16, pcm_hash


@dataclass
class Checked:
    """Labels, and what measuring says instead of them; one row an event or a scene."""

    reference: str
    events: pd.DataFrame
    measured: pd.DataFrame
    scenes: pd.DataFrame
    measured_scenes: pd.DataFrame
    group: NDArray[np.int64]  # [events] those of one number share a gain
    mix_error: Floats  # [scenes] largest difference to (background + stems) x scene gain, of the scene's peak
    outside_error: Floats  # [events] sound of a stem outside its clip, samples
    highest_pcm: NDArray[np.int64]  # [scenes]


def check(
    generator: SceneGenerator,
    numbers: Iterable[int],
    look: Callable[[Scenes], None] = lambda batch: None,
    batch_size: int = 8,
) -> Checked:
    """Render, measure, and keep tables only.

    Args:
        generator: of the spec.
        numbers: scenes.
        look: called with each batch, stems and all.
        batch_size: scenes at a time.
    """
    snr = generator.spec.events.snr
    parts: list[tuple[pd.DataFrame, ...]] = []
    groups, mix_error, highest = [], [], []
    clips = generator.bank.clips
    for batch in _batches(generator, numbers, batch_size):
        assert batch.stems is not None
        assert batch.background is not None
        measured = measure_events(
            batch.events, batch.scenes, clips, batch.stems, batch.background, generator.sample_rate,
            subtract_noise=snr.subtract_noise, audible_db=snr.audible_db,
        )  # fmt: skip
        measured_scenes, mixes = measure_scenes(measured, batch.scenes, batch.stems, batch.background)
        gains = 10 ** (batch.scenes["scene_gain_db"].to_numpy() / 20)
        hashes = []
        for audio, mix, gain in zip(batch.audio, mixes, gains, strict=True):
            pcm = pcm16(audio[: len(mix)])
            hashes.append(pcm_hash(pcm))
            highest.append(int(np.abs(pcm.astype(np.int64)).max()))
            mix_error.append(float(np.abs(audio[: len(mix)] - gain * mix).max() / np.abs(audio).max()))
        measured_scenes["pcm_hash"] = hashes
        scene = np.repeat(batch.plan.scene, np.diff(batch.plan.event_offsets))
        groups.append(scene * 1000 + batch.plan.gain_group)
        parts.append((batch.events, measured, batch.scenes, measured_scenes))
        look(batch)
    events, measured, scenes, measured_scenes = (
        pd.concat([table for table in tables if len(table)], ignore_index=True) for tables in zip(*parts, strict=True)
    )
    before = np.maximum(events["clip_onset"].to_numpy(), 0) - measured["first_sound"].to_numpy()
    behind = measured["last_sound"].to_numpy() - events["clip_offset"].to_numpy() + 1
    return Checked(
        snr.reference,
        events,
        measured,
        scenes,
        measured_scenes,
        np.concatenate(groups),
        np.array(mix_error),
        np.maximum(np.maximum(before, behind), 0).astype(np.float64),
        np.array(highest),
    )


def _batches(generator: SceneGenerator, numbers: Iterable[int], size: int) -> Iterator[Scenes]:
    rest = iter(numbers)
    while chunk := list(islice(rest, size)):
        yield generator.render(chunk, stems=True)


def assert_labels_are_true(checked: Checked) -> None:
    """Every number of both tables that can be measured is what measuring gives."""
    events, measured, scenes, truth = checked.events, checked.measured, checked.scenes, checked.measured_scenes
    for name in ("onset", "offset", "clip_offset", "truncated", "onset_s", "offset_s"):
        assert (events[name] == measured[name]).all(), name
    assert (checked.outside_error == 0).all()
    for name in ("low_hz", "high_hz"):
        np.testing.assert_allclose(events[name], measured[name], rtol=1e-6)
    for name in ("snr_scene_db", "snr_local_db", "snr_band_db"):
        np.testing.assert_allclose(events[name].astype(float), measured[name], atol=0.05, err_msg=name)
    on_the_edge = (measured["snr_band_db"] - measured["snr_band_db"].round()).abs() < 1e-3
    assert (events["audible"].astype(bool) == measured["audible"])[~on_the_edge].all()

    for name in ("n_events", "max_polyphony", "pcm_hash"):
        assert (scenes[name] == truth[name]).all(), name
    np.testing.assert_allclose(scenes["level_dbfs"], truth["level_dbfs"], atol=0.01)
    gain, least = scenes["scene_gain_db"].to_numpy(), truth["least_gain_db"].to_numpy()
    assert (gain <= least + 1e-5).all()
    assert (gain >= least - 0.005).all()
    assert (gain[least == 0] == 0).all()
    assert checked.mix_error.max() < 1e-6
    assert checked.highest_pcm.max() <= 32768 * 10 ** (-1 / 20) + 0.5


def assert_asked_is_reached(checked: Checked) -> None:
    """Each event, or gain group with its pooled power, has the SNR asked for in the spec's reference."""
    table = checked.measured[[f"signal_{checked.reference}", f"masking_{checked.reference}"]].groupby(checked.group)
    pooled = table.sum()
    reached = 10 * np.log10(pooled.iloc[:, 0] / pooled.iloc[:, 1])
    asked = checked.events["snr_db"].groupby(checked.group)

    assert (asked.nunique() == 1).all()
    np.testing.assert_allclose(reached, asked.first(), atol=0.05)


def largest_errors(checked: Checked) -> dict[str, float]:
    """For a report: how far labels and measurements are apart at most."""
    events, measured = checked.events, checked.measured
    names = ("snr_scene_db", "snr_local_db", "snr_band_db")
    return {
        "events": len(events),
        "samples": float((events[["onset", "offset"]] - measured[["onset", "offset"]]).abs().to_numpy().max()),
        "snr_db": max(float((events[name].astype(float) - measured[name]).abs().max()) for name in names),
        "mix": float(checked.mix_error.max()),
    }
