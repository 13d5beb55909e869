"""The demo bank on the real engine: what it measures is what was put in, and nobody's folder is touched."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthscape.bank.demo import DEMO_FILE, make_demo_bank
from synthscape.bank.store import ClipStore
from synthscape.bank.synthetic_voices import DEMO_RATE, voice_tracks
from synthscape.errors import StoreError


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo bank of seed 0."""
    folder = tmp_path_factory.mktemp("banks") / "demo"
    start = time.perf_counter()
    paths = make_demo_bank(folder)
    print(f"demo bank made in {time.perf_counter() - start:.1f} s")

    assert paths == (folder / "pseudovox", folder / "backgrounds")
    return folder


@pytest.fixture(scope="module")
def clips(home: Path) -> pd.DataFrame:
    """The clips' table joined with what is true of each call (columns ``true_*``)."""
    table = ClipStore.open(home / "pseudovox").clips
    truth = []
    for track in voice_tracks(seed=0):
        for call in track.calls:
            truth.append(
                {
                    "recording_id": track.recording_id,
                    "true_onset": call.onset,
                    "true_offset": call.offset,
                    "true_low_hz": call.low_hz,
                    "true_high_hz": call.high_hz,
                    "true_call_type": call.call_type,
                    "true_relative_db": call.relative_db,
                    "true_individual": track.individual,
                    "true_species": track.species.name,
                }
            )
    true = pd.DataFrame(truth).sort_values(["recording_id", "true_onset"]).reset_index(drop=True)
    table = table.sort_values(["recording_id", "track_onset_s"]).reset_index(drop=True)

    assert table["recording_id"].tolist() == true["recording_id"].tolist()
    return pd.concat([table, true.drop(columns="recording_id")], axis=1)


def test_every_call_is_a_clip_with_its_names(clips: pd.DataFrame) -> None:
    """One clip a call; species, call type and individual are those of the call."""
    for name in ("species", "call_type", "individual"):
        assert clips[name].tolist() == clips[f"true_{name}"].tolist()
    for name in ("genus", "family", "order", "cluster", "unit", "medium", "licence", "recordist", "site", "datetime"):
        assert clips[name].notna().all(), name
    assert set(clips["licence"]) == {"CC0-1.0"}
    assert clips["quality"].isna().all()
    assert clips.groupby("cluster")["call_type"].nunique().max() == 1
    assert clips["cluster"].nunique() == len(clips[["species", "call_type"]].drop_duplicates())


def test_clusters_come_in_three_sizes(clips: pd.DataFrame) -> None:
    """A fine cluster lies in one type and has several recordings; a coarse one has whole types, of one genus."""
    for fine, types in clips.groupby("cluster_8")["cluster"].nunique().items():
        assert types == 1, fine
    assert clips.groupby("cluster_8")["recording_id"].nunique().min() >= 2
    assert clips.groupby("cluster")["cluster_8"].nunique().tolist() == [2] * clips["cluster"].nunique()
    assert clips.groupby("cluster")["cluster_64"].nunique().max() == 1
    assert clips.groupby("cluster_64")["genus"].nunique().max() == 1
    assert 10 <= clips["cluster_64"].nunique() < clips["cluster"].nunique()


def test_recordists_and_sites_say_nothing_of_the_call(clips: pd.DataFrame) -> None:
    """Every species has them all, every call has many of its type from another recordist at another site."""
    for name, number in (("recordist", 6), ("site", 8)):
        recordings = clips.drop_duplicates("recording_id")

        assert clips[name].nunique() == number
        assert (clips.groupby("species")[name].nunique() == number).all()
        assert recordings.groupby(["species", name]).size().max() == 2
        assert (recordings.groupby(["individual", name]).size() == 1).all()
    for _, calls in clips.groupby("cluster"):
        recordist, site = calls["recordist"].to_numpy(), calls["site"].to_numpy()
        apart = (recordist[:, None] != recordist) & (site[:, None] != site)

        assert apart.sum(axis=1).min() >= 5


def test_active_parts_are_the_calls(clips: pd.DataFrame) -> None:
    """Measured onsets and offsets of all clips lie within 5 ms of the synthesised ones."""
    first = np.rint(clips["track_onset_s"].to_numpy(float) * DEMO_RATE)
    onset = first + clips["active_start"].to_numpy(float)
    offset = first + clips["active_end"].to_numpy(float)
    early = (onset - clips["true_onset"].to_numpy()) / DEMO_RATE
    late = (offset - clips["true_offset"].to_numpy()) / DEMO_RATE
    print(f"onset error {early.min():+.4f} to {early.max():+.4f} s, offset {late.min():+.4f} to {late.max():+.4f} s")

    assert np.abs(early).max() <= 0.005
    assert np.abs(late).max() <= 0.005


def test_measured_bands_are_the_synthesised_ones(clips: pd.DataFrame) -> None:
    """Band edges of all clips are those of the call's 95 % energy band, to 8 % or a bin of 32 ms (31 Hz)."""
    for name in ("low_hz", "high_hz"):
        measured, true = clips[name].to_numpy(float), clips[f"true_{name}"].to_numpy(float)

        assert (np.abs(measured - true) <= np.maximum(0.08 * true, 31.25)).all(), name


def test_relative_amplitude_inside_a_track_survives(clips: pd.DataFrame) -> None:
    """``peak`` of the clips of one track differs by what the calls differ by."""
    for _, track in clips.groupby("recording_id"):
        measured_db = 20 * np.log10(track["peak"].to_numpy(float))
        measured_db -= measured_db.max()

        assert np.abs(measured_db - track["true_relative_db"].to_numpy()).max() < 0.4
    assert clips["true_relative_db"].min() < -6


def test_clips_have_a_floor_that_can_be_measured(clips: pd.DataFrame) -> None:
    """Every clip has room around the call, so its own SNR and signal share are known; the calls stand well above."""
    assert clips["clip_snr_db"].notna().all()
    assert clips["clip_snr_db"].min() > 10
    assert clips["signal_share"].min() > 0.9


def test_backgrounds_are_usable_everywhere(home: Path) -> None:
    """No 50 ms block is silent in any third octave between 50 Hz and 7 kHz; no background shares a clip's site."""
    store = ClipStore.open(home / "backgrounds")
    low, high = store.band_edges_hz[:-1], store.band_edges_hz[1:]
    used = (low >= 45) & (high <= 7200)
    for row in range(len(store)):
        blocks = store.band_energy(row)[:-1][:, used] / store.block_samples  # the last block may be short
        assert 10 * np.log10(blocks.min() + 1e-30) > -110
        assert 10 * np.log10(np.median(blocks, axis=0).min()) > -90
    sites = set(ClipStore.open(home / "pseudovox").clips["site"])

    assert not sites & set(store.clips["site"])
    assert (store.clips["animal_score"] == 0).all()
    assert set(store.clips["medium"]) == {"air"}


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_making_it_again_writes_nothing(home: Path) -> None:
    """A second call with the same seed leaves every file as it is, so a read-only folder will do."""
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    make_demo_bank(home)

    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_what_an_interrupted_run_left_is_made_anew(home: Path, tmp_path: Path) -> None:
    """A store that is missing, or there but not yet accounted for, is made anew, in any folder with the same bytes."""
    whole = _content(home)
    folder = tmp_path / "elsewhere"
    for lost, kept in (("pseudovox", "backgrounds"), ("backgrounds", "pseudovox")):
        shutil.copytree(home, folder)
        stamp = (folder / kept / "store.json").stat().st_mtime_ns
        if lost == "pseudovox":
            shutil.rmtree(folder / lost)
        else:
            marker = json.loads((folder / DEMO_FILE).read_text())
            del marker["fingerprints"][lost]
            (folder / DEMO_FILE).write_text(json.dumps(marker))
        make_demo_bank(folder)

        assert _content(folder) == whole
        assert (folder / kept / "store.json").stat().st_mtime_ns == stamp
        shutil.rmtree(folder)


def test_folders_of_others_are_refused_and_left_alone(home: Path, tmp_path: Path) -> None:
    """Other content, a file, another seed's bank, a replaced store, a broken marker: refused, and left as it is."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="no demo bank"):
        make_demo_bank(other)
    with pytest.raises(StoreError, match="is a file"):
        make_demo_bank(other / "thesis.txt")
    before = _content(home)
    with pytest.raises(StoreError, match="seed 0, asked for was 1"):
        make_demo_bank(home, seed=1)
    mixed = tmp_path / "mixed"
    shutil.copytree(home, mixed)
    shutil.rmtree(mixed / "pseudovox")
    shutil.copytree(home / "backgrounds", mixed / "pseudovox")
    with pytest.raises(StoreError, match="not the store that the demo made"):
        make_demo_bank(mixed)
    (mixed / DEMO_FILE).write_text("{")
    with pytest.raises(StoreError, match="can't be read"):
        make_demo_bank(mixed)
    with pytest.raises(ValueError, match="seed"):
        make_demo_bank(tmp_path / "new", seed=-1)

    assert _content(home) == before
    assert list(_content(other)) == ["thesis.txt"]
    assert not (tmp_path / "new").exists()
