"""Banks of real recordings through the command line, and scenes of them against independent measurement."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthscape import ClipStore, Dataset, SceneGenerator, Scenes, load_spec, open_dataset
from synthscape_kernels.place import table_power
from tests.verification.checked import assert_asked_is_reached, assert_labels_are_true, check, largest_errors
from tests.verification.commands import side_by_side, synthscape
from tests.verification.measure import pcm16

WATER = ("marine mammal", "fish")
ULTRASONIC = ("bat", "rodent")
BATS = ("batdetect2", "battybirdnet", "whombat_bats", "naturesounds_thyroptera")


@dataclass
class Rendered:
    """A dataset that the command line made of real recordings, and what it was made of."""

    build: dict[str, object]
    overrides: tuple[str, ...]
    data: Dataset


def rows_of(shared_data: Path) -> list[dict[str, str]]:
    """What index.csv says, a row a file."""
    with (shared_data / "index.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def linked(source: Path, folder: Path, rows: list[dict[str, str]]) -> Path:
    """A folder with links to some of the recordings: ``bank build`` takes one folder, and all of it."""
    for row in rows:
        link = folder / row["path"]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source / row["path"])
    return folder


def completed(rows: list[dict[str, str]], table: Path) -> Path:
    """The index with what it lacks: a name for every animal, and what it, or a background, is heard in."""
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "species", "medium"])
        writer.writeheader()
        for row in rows:
            wet = row["taxon_group"] in WATER or "underwater" in row["source"]
            name = row["species_scientific"] or row["common_name"]
            writer.writerow({**row, "species": name, "medium": "water" if wet else "air"})
    return table


@pytest.fixture(scope="module")
def field(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """500 scenes at 16 kHz of all animals over all backgrounds."""
    home = tmp_path_factory.mktemp("field")
    rows = rows_of(shared_data)
    animals = linked(shared_data, home / "animals", [row for row in rows if row["kind"] in ("recording", "isolated")])
    places = linked(shared_data, home / "places", [row for row in rows if row["kind"] == "background"])
    table = completed(rows, home / "index.csv")
    known = ("--metadata", table, "--ignore-columns", "*")
    build, _ = side_by_side(
        ("bank", "build", animals, "--out", home / "pseudovox", "--cut", "activity", *known),
        ("bank", "build", places, "--out", home / "backgrounds", "--kind", "backgrounds", *known),
    )
    stores = (f"bank={home / 'pseudovox'}", f"backgrounds={home / 'backgrounds'}")
    overrides = (*stores, "items=500", "seed=11", f"output.dir={home / 'out'}")
    synthscape("render", "strong_detection", *overrides)
    return Rendered(build, overrides, open_dataset(home / "out"))


@pytest.fixture(scope="module")
def bats(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """90 scenes at 256 kHz of bats over a recording without any."""
    home = tmp_path_factory.mktemp("bats")
    rows = rows_of(shared_data)
    animals = linked(shared_data, home / "animals", [row for row in rows if row["source"] in BATS])
    at_rate = ("--rate", 256_000, "--medium", "air")
    known = ("--metadata", shared_data / "index.csv", "--ignore-columns", "*", "--column", "species=species_scientific")
    places = shared_data / "backgrounds" / "ultrasonic_nobats"
    build, _ = side_by_side(
        ("bank", "build", animals, "--out", home / "pseudovox", *known, *at_rate),
        ("bank", "build", places, "--out", home / "backgrounds", "--kind", "backgrounds", *at_rate),
    )
    stores = (f"bank={home / 'pseudovox'}", f"backgrounds={home / 'backgrounds'}", "sample_rate=256000")
    one_place = ("duration=2", "background.mix.probability=0", "classes.per_scene={uniform_int: [2, 4]}")
    overrides = (*stores, *one_place, "items=90", "seed=3", f"output.dir={home / 'out'}")
    synthscape("render", "strong_detection", *overrides)
    return Rendered(build, overrides, open_dataset(home / "out"))


def disk_against_memory(data: Dataset) -> Callable[[Scenes], None]:
    """A look at batches that compares their samples to the files of a dataset."""

    def look(batch: Scenes) -> None:
        for i, scene in enumerate(batch.scenes.to_dict("records")):
            on_disk = data.audio(scene["scene_id"])

            assert scene["sample_rate"] == data.sample_rate
            assert np.array_equal(pcm16(on_disk), pcm16(batch.audio[i, : scene["n_samples"]]))

    return look


@pytest.mark.parametrize("which", ["field", "bats"])
def test_labels_of_real_recordings_are_true(which: str, request: pytest.FixtureRequest) -> None:
    """Labels of the first 350 of the scenes on disk are what measuring stems gives, and every asked SNR is reached."""
    rendered: Rendered = request.getfixturevalue(which)
    generator = SceneGenerator(load_spec("strong_detection", rendered.overrides))
    n = min(generator.spec.items, 350)
    checked = check(generator, range(n), disk_against_memory(rendered.data))
    print(which, largest_errors(checked))

    assert_labels_are_true(checked)
    assert_asked_is_reached(checked)
    on_disk = rendered.data.events.iloc[: len(checked.events)]
    pd.testing.assert_frame_equal(on_disk, checked.events.astype(on_disk.dtypes), check_exact=True)
    assert rendered.data.scenes["pcm_hash"].tolist()[:n] == checked.measured_scenes["pcm_hash"].tolist()
    assert len(checked.events) > {"field": 1100, "bats": 60}[which]


@pytest.mark.parametrize("which", ["field", "bats"])
def test_datasets_of_real_recordings_are_whole(which: str, request: pytest.FixtureRequest) -> None:
    """Every scene asked for is delivered, all hashes hold, licences reach every row, no label is without sound."""
    data = request.getfixturevalue(which).data

    assert len(data) == len(data.scenes) == data.spec["items"]
    assert data.verify() == []
    assert (data.scenes["licences"].map(len) > 0).all()
    assert "unknown" not in data.info["licences"] or which == "bats"
    measured = data.events[["snr_scene_db", "snr_local_db", "snr_band_db", "gain_db"]]
    assert np.isfinite(measured.to_numpy()).all()
    assert 0.2 < data.events["audible"].mean() < 0.9


def test_what_is_asked_of_real_recordings_is_placed(field: Rendered) -> None:
    """At least 98 % of the events asked for find a place, and the rest is counted by reason."""
    scenes = field.data.scenes

    assert scenes["n_placed"].sum() >= 0.98 * scenes["n_asked"].sum()
    dropped = sum(sum(reasons.values()) for reasons in scenes["drop_reasons"])
    assert dropped == scenes["n_asked"].sum() - scenes["n_placed"].sum()


def test_only_what_16_khz_cannot_hold_is_rejected(field: Rendered, shared_data: Path) -> None:
    """Files in = files with clips + rejected; those rejected are bats, mice, a cricket, and a call nobody can cut."""
    build, store = field.build, Path(str(field.build["path"]))
    rejected = pd.read_csv(store / "rejected.csv", keep_default_na=False)
    of_file = {row["path"]: row for row in rows_of(shared_data)}
    with_clips = set(ClipStore.open(store).clips["recording_id"])
    files = set(rejected["file"]) - with_clips
    audible = [name for name in files if of_file[name]["taxon_group"] not in ULTRASONIC]

    assert build["n_recordings"] == build["n_with_clips"] + build["n_rejected"] == 296
    assert build["n_rejected"] == len(files)
    assert sorted(audible) == ["isolated/perch_reef_fish/Croak.flac", "recordings/esc50_animals/crickets.flac"]
    with_clips = {name for name in ClipStore.open(store).clips["recording_id"] if of_file[name]["taxon_group"] == "bat"}
    assert (
        with_clips
        == {
            "isolated/naturesounds_thyroptera/279820-1.wav",
            "isolated/naturesounds_thyroptera/279820-2.wav",
            "recordings/r_bioacoustics/myotis.flac",
        }
        or len(with_clips) < 6
    )


def test_whales_are_under_water(field: Rendered, shared_data: Path) -> None:
    """Calls of water never lie over backgrounds of air, nor the other way round, though both are in one bank."""
    group = {row["path"]: row["taxon_group"] for row in rows_of(shared_data)}
    scenes, events = field.data.scenes, field.data.events
    wet_place = {
        scene["scene_id"]: {"underwater" in name for name in scene["background_recording_ids"]}
        for scene in scenes.to_dict("records")
    }
    wet_call = events["recording_id"].map(lambda name: group[name] in WATER)

    assert all(len(places) == 1 for places in wet_place.values())
    assert (events["scene_id"].map(lambda name: wet_place[name] == {True}) == wet_call).all()
    assert 20 < wet_call.sum() < len(events) - 20


def test_bats_keep_their_frequencies(bats: Rendered) -> None:
    """A 256 kHz bank takes every bat file, and labels reach into their bands, far above what 16 kHz would hold."""
    build, events = bats.build, bats.data.events
    middle = np.sqrt(events["low_hz"].astype(float) * events["high_hz"].astype(float))

    assert (build["n_recordings"], build["n_rejected"]) == (42, 0)
    assert middle.between(8_000, 110_000).all()
    assert events["high_hz"].max() > 90_000
    assert bats.data.sample_rate == 256_000


def test_tables_serve_planning(field: Rendered) -> None:
    """What the 50 ms x third-octave tables say of a call, or of a background behind it, in the call's band.

    The tables only decide what is silent and what is hopeless: nine of ten backgrounds, and of calls of three blocks
    and more, must be within 4 dB. The error is printed, and stands in docs/bank.md.
    """
    generator = SceneGenerator(load_spec("strong_detection", field.overrides))
    bank, backgrounds = generator.bank, generator.backgrounds
    assert backgrounds is not None
    rng = np.random.default_rng(0)
    start, end = bank.active
    low_hz, high_hz = bank.numbers("low_hz"), bank.numbers("high_hz")
    error_db: list[tuple[float, float]] = []
    for clip in np.flatnonzero(~np.isnan(low_hz)):
        n = int(end[clip] - start[clip])
        row = int(rng.choice(np.flatnonzero(backgrounds.lengths > n)))
        at = int(rng.integers(backgrounds.lengths[row] - n))
        low, high = low_hz[clip], max(high_hz[clip], low_hz[clip] * 2 ** (1 / 3))
        found = []
        for store, which, first in ((bank, clip, int(start[clip])), (backgrounds, row, at)):
            blocks = store.block_starts[which : which + 2]
            said = table_power(
                store.band_energy_all, blocks[0], blocks[1], store.band_edges_hz, store.block_samples, first, first + n,
                low, high,
            )  # fmt: skip
            spectrum = np.abs(np.fft.rfft(store.audio(which)[first : first + n])) ** 2
            hz = np.fft.rfftfreq(n, 1 / store.sample_rate)
            inside = (hz >= low) & (hz <= high)
            inside[np.argmin(np.abs(hz - np.sqrt(low * high)))] = True
            true = 2 * spectrum[inside].sum() / n**2
            found.append(10 * np.log10(said / true) if true > 1e-9 else np.nan)  # silent: never planned
        error_db.append((found[0], found[1]))
    errors = np.array(error_db)
    long = (end - start)[~np.isnan(low_hz)] >= 3 * bank.block_samples
    for name, column in (
        ("backgrounds", errors[:, 1]),
        ("calls of 150 ms and more", errors[long, 0]),
        ("shorter calls", errors[~long, 0]),
    ):
        known = column[~np.isnan(column)]
        print(f"{len(known)} {name}, error in dB at 5, 50, 95 %: {np.percentile(known, [5, 50, 95]).round(2)}")
        assert len(known) > 50
        if name != "shorter calls":
            assert np.mean(np.abs(known) <= 4) >= 0.9
