"""A store written and read back, opened damaged, and killed in the middle."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscape.bank.inspect import check
from synthscape.bank.schema import KINDS
from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import AudioError, StoreError

RATE = 16000


def _some(rng: np.random.Generator, n: int, longest: int = 3000) -> list[np.ndarray]:
    return [rng.normal(size=int(length)) * rng.uniform(1e-4, 3) for length in rng.integers(1, longest, n)]


def _write(path: Path, clips: list[np.ndarray], **options) -> StoreWriter:
    with StoreWriter(path, "pseudovox", RATE, **options) as writer:
        for i, clip in enumerate(clips):
            writer.add(clip, {"recording_id": f"r{i}", "species": "Parus major" if i % 2 else None, "rms_db": -1.5 * i})
    return writer


def test_read_back(tmp_path, rng):
    """What is read is what was written, within half a step of the clip's own int16 scale, over several audio files."""
    clips = _some(rng, 60)
    _write(tmp_path / "bank", clips, max_file_bytes=40_000)
    bank = ClipStore.open(tmp_path / "bank")

    assert len(bank) == 60
    assert len(bank.info["audio"]) > 2
    for row, clip in enumerate(clips):
        peak = bank.clips["peak"][row]
        assert peak == np.abs(clip).max()
        assert np.abs(bank.pcm(row).astype(float) / 32767 * peak - clip).max() <= 0.5001 * peak / 32767
        assert np.array_equal(bank.audio(row), bank.pcm(row) / np.float32(32768))
        assert np.abs(bank.pcm(row).astype(int)).max() == 32767
    assert np.all(bank.starts % 8 == 0)
    assert check(bank) == []


def test_clip_id_is_the_hash_of_the_stored_audio(tmp_path, rng):
    """The clip_id can be had from the file alone: BLAKE2b-128 over the int16 bytes and the length."""
    _write(tmp_path / "bank", _some(rng, 5))
    bank = ClipStore.open(tmp_path / "bank")
    raw = (tmp_path / "bank" / "audio-00000.i16").read_bytes()
    for row in range(5):
        start, length = int(bank.starts[row]), int(bank.lengths[row])
        said = hashlib.blake2b(raw[2 * start : 2 * (start + length)] + length.to_bytes(8, "little"), digest_size=16)

        assert bank.clips["clip_id"][row] == said.hexdigest()


def test_equal_audio_is_stored_once(tmp_path, rng):
    """The same audio at another level is the same clip: the first is kept, the other is listed."""
    clip = rng.normal(size=500)
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        first = writer.add(clip, {"recording_id": "a"})
        second = writer.add(clip * 0.25, {"recording_id": "b"})

    assert first is not None
    assert second is None
    assert writer.n_clips == 1
    assert (tmp_path / "bank" / "duplicates.csv").read_text().splitlines()[1] == f"{first},b,,,a"


def test_gather_packs_clips_on_multiples_of_8(tmp_path, rng):
    """Gathered clips are the clips, aligned, with zeros between, in the order asked for and twice if asked twice."""
    _write(tmp_path / "bank", _some(rng, 20))
    bank = ClipStore.open(tmp_path / "bank")
    rows = np.array([7, 3, 7, 19])
    packed, starts = bank.gather(rows)
    used = np.zeros(len(packed), dtype=bool)
    for row, start in zip(rows, starts, strict=True):
        length = bank.lengths[row]
        used[start : start + length] = True
        assert np.array_equal(packed[start : start + length], bank.pcm(row))

    assert np.all(starts % 8 == 0)
    assert not packed[~used].any()
    assert len(bank.gather(np.array([], dtype=np.int64))[0]) == 0


def test_band_energy_is_the_energy(tmp_path, rng):
    """Bands sum to each block's energy (Parseval), and a tone's energy is in the band that holds it."""
    tone_clip = np.sin(2 * np.pi * 2000 * np.arange(RATE) / RATE)
    _write(tmp_path / "bank", [*_some(rng, 10), tone_clip])
    bank = ClipStore.open(tmp_path / "bank")
    for row in range(len(bank)):
        audio = bank.audio(row).astype(float)
        padded = np.pad(audio, (0, -len(audio) % bank.block_samples)).reshape(-1, bank.block_samples)
        table = bank.band_energy(row)

        assert table.shape == (len(padded), len(bank.band_edges_hz) - 1)
        assert np.allclose(table.sum(axis=1), (padded**2).sum(axis=1), rtol=1e-4, atol=1e-9)
    band = np.searchsorted(bank.band_edges_hz, 2000) - 1
    share = bank.band_energy(10).sum(axis=0)[band] / bank.band_energy(10).sum()
    assert share > 0.99
    assert np.allclose(np.diff(np.log2(bank.band_edges_hz[1:-1])), 1 / 3)
    assert bank.block_starts[-1] == len(bank.band_energy_all)


def test_only_required_columns(tmp_path, rng):
    """A table with clip_id, start and length alone is a store: the rest counts as null, and asking names the column."""
    _write(tmp_path / "bank", _some(rng, 4))
    path = tmp_path / "bank" / "clips.parquet"
    pq.write_table(pq.read_table(path, columns=["clip_id", "start", "length"]), path)
    bank = ClipStore.open(tmp_path / "bank")
    start, end = bank.active

    assert np.array_equal(start, np.zeros(4))
    assert np.array_equal(end, bank.lengths)
    assert not bank.has("species")
    assert len(bank.clips) == 4
    assert len(bank.audio(2)) == bank.lengths[2]
    with pytest.raises(StoreError, match=r"'species' doesn't exist.*classes\.by needs it"):
        bank.require(["species"], "classes.by needs it")
    with pytest.raises(StoreError, match="no column 'specie'"):
        bank.columns(["specie"])


def test_null_columns_are_named(tmp_path, rng):
    """A column that exists but holds nothing is missing, too; one with a single value is there."""
    _write(tmp_path / "bank", _some(rng, 4))
    bank = ClipStore.open(tmp_path / "bank")

    assert bank.has("species")
    with pytest.raises(StoreError, match="'call_type' is empty, but it does"):
        bank.require(["species", "call_type"], "it does")


@pytest.mark.parametrize("part", ["audio-00000.i16", "bands.f32", "clips.parquet", "store.json"])
def test_missing_and_damaged_parts_are_named(tmp_path, rng, part):
    """A part that is gone, cut off or garbage is named when the store is opened."""
    _write(tmp_path / "bank", _some(rng, 4))
    file = tmp_path / "bank" / part
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    with pytest.raises(StoreError, match=part):
        ClipStore.open(tmp_path / "bank")
    file.unlink()
    with pytest.raises(StoreError, match=part):
        ClipStore.open(tmp_path / "bank")


def test_a_table_that_is_cut_while_it_is_open_is_damaged(tmp_path, rng):
    """The process doesn't end at it; a store that is put in the place of an open one changes nothing for who reads."""
    _write(tmp_path / "bank", _some(rng, 40))
    _write(tmp_path / "other", _some(rng, 40))
    bank, replaced = ClipStore.open(tmp_path / "bank"), ClipStore.open(tmp_path / "other")
    ids = replaced.columns(["clip_id"])
    table = tmp_path / "bank" / "clips.parquet"
    table.with_name("copy").write_bytes(table.read_bytes())
    table.with_name("copy").replace(tmp_path / "other" / "clips.parquet")
    os.truncate(table, 10)

    with pytest.raises(StoreError, match=r"clips\.parquet is damaged"):
        bank.columns(["clip_id"])
    assert replaced.columns(["clip_id"]).equals(ids)


def test_columns_are_read_by_several_threads(tmp_path, rng):
    """Each gets what it asks for, of a table of several row groups."""
    _write(tmp_path / "bank", _some(rng, 40))
    path = tmp_path / "bank" / "clips.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=7)
    bank = ClipStore.open(tmp_path / "bank")
    names = ["clip_id", "recording_id", "species", "start", "length", "rms_db"] * 50
    with ThreadPoolExecutor(8) as pool:
        for name, columns in zip(names, pool.map(lambda name: bank.columns([name]), names), strict=True):
            assert columns.equals(table.select([name]))


def test_sizes_are_in_the_message(tmp_path, rng):
    """The message gives the expected and the real size."""
    _write(tmp_path / "bank", [np.ones(8)])
    (tmp_path / "bank" / "audio-00000.i16").write_bytes(b"abc")
    with pytest.raises(StoreError, match="has 3 bytes, expected 16"):
        ClipStore.open(tmp_path / "bank")


def test_a_store_from_elsewhere_can_not_point_outside(tmp_path, rng):
    """Names of audio files are names, not paths."""
    _write(tmp_path / "bank", _some(rng, 2))
    file = tmp_path / "bank" / "store.json"
    info = json.loads(file.read_text())
    info["audio"][0]["name"] = "../secret.i16"
    file.write_text(json.dumps(info))
    with pytest.raises(StoreError, match="plain name"):
        ClipStore.open(tmp_path / "bank")


def test_nothing_of_others_is_replaced(tmp_path, rng):
    """A file, or a folder that is no store, is left alone even with overwrite; a store only goes with overwrite."""
    clips = _some(rng, 2)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("folder", "file"):
        with pytest.raises(StoreError, match="left alone"):
            _write(tmp_path / name, clips, overwrite=True)
    _write(tmp_path / "bank", clips)
    with pytest.raises(StoreError, match="--overwrite"):
        _write(tmp_path / "bank", clips)
    _write(tmp_path / "bank", clips[:1], overwrite=True)
    (tmp_path / "empty").mkdir()
    _write(tmp_path / "empty", clips)

    assert len(ClipStore.open(tmp_path / "bank")) == 1
    assert len(ClipStore.open(tmp_path / "empty")) == 2
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "empty", "file", "folder"]


def test_failure_leaves_nothing(tmp_path, rng):
    """An error inside the block, or no clip at all, leaves neither a store nor files aside."""

    def fail(writer: StoreWriter) -> None:
        writer.add(rng.normal(size=100), {})
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"), StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        fail(writer)
    with pytest.raises(StoreError, match="not one clip"), StoreWriter(tmp_path / "bank", "pseudovox", RATE):
        pass

    assert list(tmp_path.iterdir()) == []


def test_killed_in_the_middle(tmp_path):
    """kill -9 while writing leaves no store; the next writer to the same place clears what was left aside."""
    script = (
        "import sys, numpy as np\n"
        "from synthscape.bank.writer import StoreWriter\n"
        f"with StoreWriter({str(tmp_path / 'bank')!r}, 'pseudovox', 16000) as writer:\n"
        "    for i in range(10**9):\n"
        "        writer.add(np.random.default_rng(i).normal(size=50), {})\n"
        "        if i == 20: print('writing', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    beside = [path.name for path in tmp_path.iterdir()]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert beside != ["bank"]
    assert not (tmp_path / "bank").exists()
    _write(tmp_path / "bank", [np.ones(3)])

    assert [path.name for path in tmp_path.iterdir()] == ["bank"]


def test_writers_at_work_do_not_clear_each_other(tmp_path, rng):
    """A folder that another writer is still filling is not taken for one left behind."""
    clip = rng.normal(size=10)
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as slow:
        slow.add(clip, {})
        with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as fast:
            fast.add(clip, {})
        assert slow.aside.is_dir()
        (tmp_path / "bank").rename(tmp_path / "first")

    assert len(ClipStore.open(tmp_path / "bank")) == 1


@pytest.mark.parametrize(
    ("samples", "reason"),
    [([], "empty"), ([0.0, 0.0], "silent"), ([1.0, np.nan], "not_finite"), ([np.inf, 0.0], "not_finite")],
)
def test_audio_that_can_not_be_a_clip(tmp_path, samples, reason):
    """No samples, silence, NaN and infinity are refused by name, and the writer goes on."""
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE) as writer:
        with pytest.raises(AudioError) as caught:
            writer.add(np.array(samples), {})
        writer.add(np.ones(1), {})

    assert caught.value.reason == reason
    assert len(ClipStore.open(tmp_path / "bank")) == 1


def test_columns_are_checked(tmp_path):
    """An unknown column gets a suggestion; a value of the wrong type is refused, as are NaN and broken text."""
    with StoreWriter(tmp_path / "bank", "pseudovox", RATE, cluster_columns=["cluster_8"]) as writer:
        for columns, message in [
            ({"specie": "x"}, "did you mean 'species'"),
            ({"species": 3}, "holds string, got 3"),
            ({"rms_db": float("nan")}, "holds double"),
            ({"active_start": 1.5}, "holds int64"),
            ({"species": "\udcff"}, "holds string"),
        ]:
            with pytest.raises(StoreError, match=message):
                writer.add(np.ones(5), columns)
        writer.add(np.ones(5), {"cluster_8": "12", "also_species": ["Parus major", "NA"], "active_end": np.int32(5)})
    clips = ClipStore.open(tmp_path / "bank").clips

    assert clips["cluster_8"][0] == "12"
    assert list(clips["also_species"][0]) == ["Parus major", "NA"]
    assert clips["active_end"].dtype == "Int64"


def test_fingerprint_is_of_the_content(tmp_path, rng):
    """The same clips give the same fingerprint wherever and however they are packed; any other value gives another."""
    clips = _some(rng, 30)
    same = [_write(tmp_path / "a", clips), _write(tmp_path / "b" / "c", clips, max_file_bytes=5000)]
    other = [_write(tmp_path / "d", clips[:-1]), _write(tmp_path / "e", clips[::-1])]
    with StoreWriter(tmp_path / "f", "backgrounds", RATE) as writer:
        for i, clip in enumerate(clips):
            writer.add(clip, {"recording_id": f"r{i}", "species": "Parus major" if i % 2 else None, "rms_db": -1.5 * i})
    table = pq.read_table(tmp_path / "a" / "clips.parquet")
    pq.write_table(table, tmp_path / "a" / "clips.parquet", row_group_size=7, compression="none")

    assert same[0].fingerprint == same[1].fingerprint
    assert len({same[0].fingerprint, *(writer.fingerprint for writer in [*other, writer])}) == 4
    assert check(ClipStore.open(tmp_path / "a")) == []


def test_check_finds_what_was_changed(tmp_path, rng):
    """A flipped byte of audio, and a changed cell, are found and named."""
    _write(tmp_path / "bank", _some(rng, 12))
    audio = tmp_path / "bank" / "audio-00000.i16"
    raw = bytearray(audio.read_bytes())
    raw[2 * int(ClipStore.open(tmp_path / "bank").starts[3])] ^= 1
    audio.write_bytes(bytes(raw))
    path = tmp_path / "bank" / "clips.parquet"
    table = pq.read_table(path)
    ends = pa.array([None] * 5 + [10**6] + [None] * 6, pa.int64())
    table = table.set_column(table.schema.get_field_index("active_end"), "active_end", ends)
    pq.write_table(table, path)
    info = json.loads((tmp_path / "bank" / "store.json").read_text())
    info["filled"].update(active_start=1, active_end=1)
    (tmp_path / "bank" / "store.json").write_text(json.dumps(info))
    wrong = "\n".join(check(ClipStore.open(tmp_path / "bank")))

    assert "clip 3: its audio is not the audio of clip_id" in wrong
    assert "clip 5: active part" in wrong
    assert "fingerprint" in wrong


def test_memory_is_flat(tmp_path):
    """Twice as many clips take no more memory to write."""

    def most(name: str, n: int) -> int:
        tracemalloc.start()
        with StoreWriter(tmp_path / name, "pseudovox", RATE) as writer:
            for i in range(n):
                writer.add(np.array([1.0, (i % 97) / 97, i / n]), {"species": "Parus major"})
                if i == n // 4:
                    tracemalloc.reset_peak()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    # from more rows than one group of the table on
    few, many = most("few", 9_000), most("many", 18_000)
    assert many < few * 1.05 + 200_000


def test_opening_does_not_read_rows(tmp_path):
    """A store of a million clips opens in the time of one of a few, and reads a single column in a moment."""
    _write(tmp_path / "bank", [np.ones(8)])
    n = 1_000_000
    starts = pa.array(np.arange(n, dtype=np.int64) * 8)
    ids = pa.array(np.char.mod("%032x", np.arange(n)))
    table = pa.table({"clip_id": ids, "start": starts, "length": pa.array(np.full(n, 8, dtype=np.int64))})
    pq.write_table(table, tmp_path / "bank" / "clips.parquet", row_group_size=8192)
    info = json.loads((tmp_path / "bank" / "store.json").read_text())
    info.update(n_clips=n, n_blocks=n)
    info["audio"][0]["n_samples"] = n * 8
    (tmp_path / "bank" / "store.json").write_text(json.dumps(info))
    os.truncate(tmp_path / "bank" / "audio-00000.i16", n * 16)
    os.truncate(tmp_path / "bank" / "bands.f32", n * 4 * (len(info["band_edges_hz"]) - 1))
    begin = time.perf_counter()
    tracemalloc.start()
    bank = ClipStore.open(tmp_path / "bank")
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert bank.starts[-1] == 8 * (n - 1)
    assert used < 2_000_000
    assert time.perf_counter() - begin < 5


@settings(max_examples=40)
@given(
    pcm=st.lists(st.integers(-32767, 32767), min_size=1, max_size=60).filter(any),
    scale=st.floats(1e-6, 1e6),
    kind=st.sampled_from(KINDS),
    rate=st.sampled_from([8000, 16000, 22050, 256000]),
)
def test_any_clip_survives(tmp_path_factory, pcm, scale, kind, rate):
    """Whatever the length, scale, rate and kind: one clip in, the same clip out."""
    folder = tmp_path_factory.mktemp("any")
    samples = np.array(pcm, dtype=float) * scale
    with StoreWriter(folder / "bank", kind, rate) as writer:
        writer.add(samples, {})
    bank = ClipStore.open(folder / "bank")
    back = bank.pcm(0).astype(float) / 32767 * bank.clips["peak"][0]

    assert np.allclose(back, samples, atol=np.abs(samples).max() / 65000)
    assert check(bank) == []
