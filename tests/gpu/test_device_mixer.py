"""The mixer on a device against the float64 reference and against the CPU's mixer, on tiny scenes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synthscape.bank.store import ClipStore
from synthscape.bank.writer import StoreWriter
from synthscape.errors import MixError, SpecError
from synthscape.mix.levels import scene_gain_db
from synthscape.mix.mixer import Mixer
from synthscape.mix.reference import reference_scene
from synthscape.plan.plan import NO_LEVEL, NOISE, PROCEDURAL_TAIL, ScenePlan
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator
from tests.gpu.scenes import World, event, make_world, plan_of, scene
from tests.hand_built import RATE


def device_mixer(world: World, device: str, **options: Any) -> Any:
    """Imported late: kernels are defined for the interpreter or for a GPU when this module is imported."""
    from synthscape.mix.device import DeviceMixer

    return DeviceMixer(world.spec, world.bank, world.backgrounds, None, device, **options)


def varied_plan() -> ScenePlan:
    """Four scenes with everything: ratios, reversal, fades, cuts, two layers, loops, groups, recorded levels."""
    return plan_of(
        (
            scene(2048, (0, 0, 8), (1, 0, 3), background_mix_db=-3 * 256),
            [
                event(0, -150, 2048, fade_out=40, snr_db=3 * 256),
                event(1, 300, 2048, 3, reversed=True, fade_in=30, fade_out=50, snr_db=-4 * 256),
                event(3, 1500, 2048, 2, fade_in=64),
            ],
        ),
        (
            scene(1999, (2, 0, 100)),
            [event(2, 10, 1999, 4, gain_group=5), event(2, 700, 1999, 4, gain_group=5, fade_in=7, fade_out=7)],
        ),
        (scene(1024, (2, 1, 17), level_db=np.inf), [event(1, 0, 1024, 1), event(1, 200, 1024, reversed=True)]),
        (scene(1700, (1, 3, 1200), (2, 0, 0)), []),
    )


def same_pcm(audio: np.ndarray, other: np.ndarray) -> bool:
    """PCM16 within 1 LSB in all samples, equal in more than 99.9 %."""
    a, b = np.rint(32768 * audio.astype(np.float64)), np.rint(32768 * other.astype(np.float64))
    return bool(np.abs(a - b).max() <= 1 and (a == b).mean() > 0.999)


@pytest.fixture(scope="module")
def varied(world: World, device: str) -> Any:
    """The varied plan, mixed from resident stores."""
    batch = device_mixer(world, device).render(varied_plan(), stems=True)
    assert batch.failures is None
    return batch


def test_scenes_are_those_of_the_reference(world: World, varied: Any) -> None:
    """Audio, background, stems and levels agree with the float64 reference."""
    batch = varied.to_host()
    for i in range(len(batch.plan)):
        truth = reference_scene(batch.plan, i, world.spec, world.bank, world.backgrounds)
        n, e = len(truth.audio), batch.plan.events_of(i)

        assert np.abs(batch.audio[i, :n] - truth.audio).max() < 1e-5 * np.abs(truth.audio).max()
        assert np.abs(batch.background[i, :n] - truth.background).max() < 1e-5 * np.abs(truth.background).max()
        assert not batch.audio[i, n:].any()
        for stem, true_stem in zip(batch.stems[e], truth.stems, strict=True):
            assert np.abs(stem[:n] - true_stem).max() < 1e-5 * np.abs(true_stem).max()
        np.testing.assert_allclose(batch.snr_scene_db[e], truth.snr_scene_db, atol=1e-4)
        np.testing.assert_allclose(batch.snr_local_db[e], truth.snr_local_db, atol=1e-4)
        np.testing.assert_allclose(batch.snr_band_db[e], truth.snr_band_db, atol=1e-4)
        np.testing.assert_allclose(10 ** (batch.gain_db[e] / 20), truth.gain, rtol=1e-6)


def test_scenes_are_those_of_the_cpu(world: World, varied: Any) -> None:
    """PCM16 is within 1 LSB of the CPU's in all samples and equal in more than 99.9 %; levels to 1e-5 dB."""
    cpu = Mixer(world.spec, world.bank, world.backgrounds).render(varied.plan, stems=True)
    batch = varied.to_host()

    assert same_pcm(batch.audio, cpu.audio)
    assert same_pcm(batch.stems, cpu.stems)
    assert same_pcm(batch.background, cpu.background)
    for name in ("scene_gain_db", "level_dbfs", "gain_db", "snr_scene_db", "snr_local_db", "snr_band_db"):
        np.testing.assert_allclose(getattr(batch, name), getattr(cpu, name), atol=1e-5, err_msg=name)


def test_pcm_is_the_audio_rounded(device: str) -> None:
    """PCM16 = clip(rint(32768 x), +-32767), halves to even."""
    import torch

    from synthscape_kernels import triton_launch, triton_mix

    halves = np.arange(-1024, 1024) / 2 / 32768
    audio = np.concatenate([halves, np.linspace(-1.2, 1.2, 2048)]).astype(np.float32).reshape(2, 2048)
    pcm = torch.zeros((2, 2048), dtype=torch.int16, device=device)
    on_device = [torch.tensor(x, device=device) for x in (audio, np.float32([1, 1]), np.int32([1, 1]))]
    triton_launch.launch(triton_mix.finish, 4, *on_device, 2, pcm, TILE=1024, PCM=True)

    np.testing.assert_array_equal(pcm.cpu(), np.clip(np.rint(32768 * audio.astype(np.float64)), -32767, 32767))


def test_stems_sum_to_the_mix(varied: Any) -> None:
    """audio == (background + sum of stems) x scene gain."""
    batch = varied.to_host()
    for i in range(len(batch.plan)):
        whole = batch.background[i].astype(float) + batch.stems[batch.plan.events_of(i)].astype(float).sum(axis=0)
        assert np.abs(whole * 10 ** (batch.scene_gain_db[i] / 20) - batch.audio[i]).max() < 5e-7


@pytest.mark.parametrize("options", [{"bank_limit_bytes": 0}, {"keep_pieces": False}], ids=["streamed", "filtered"])
def test_ways_to_mix_give_the_same_bits(world: World, device: str, varied: Any, options: dict[str, Any]) -> None:
    """Streaming the clips, or filtering events anew for the mix, changes no bit."""
    mixer = device_mixer(world, device, **options)
    batch = mixer.render(varied.plan)

    assert mixer.resident == (() if "bank_limit_bytes" in options else ("bank", "backgrounds"))
    assert bytes(batch.audio.cpu().numpy()) == bytes(varied.audio.cpu().numpy())


def test_a_scene_is_the_same_in_any_batch(world: World, device: str, varied: Any) -> None:
    """A scene by itself has the bits and levels it has among others."""
    plan = plan_of(
        (scene(1999, (2, 0, 100)), [event(2, 10, 1999, 4, gain_group=5), event(2, 700, 1999, 4, gain_group=5,
                                                                              fade_in=7, fade_out=7)]),
    )  # fmt: skip
    alone = device_mixer(world, device).render(plan)

    assert bytes(alone.audio[0].cpu().numpy()) == bytes(varied.audio[1, :1999].cpu().numpy())
    assert alone.snr_band_db.tolist() == varied.snr_band_db[3:5].tolist()


@pytest.mark.parametrize("reference", ["scene", "local"])
def test_references(tmp_path: Path, device: str, reference: str) -> None:
    """In the spec's own reference an ungrouped event has the SNR it was planned with."""
    world = make_world(tmp_path, f"events.snr.reference={reference}")
    plan = plan_of((scene(1500, (0, 0, 1)), [event(0, 100, 1500, snr_db=700), event(1, 800, 1500, 1, snr_db=-900)]))
    batch = device_mixer(world, device).render(plan)

    achieved = {"scene": batch.snr_scene_db, "local": batch.snr_local_db}[reference]
    np.testing.assert_allclose(achieved, plan.snr_db / 256, atol=1e-5)


SURROUNDED = {"snr": [], "source": ["events.level.mode=source", "events.level.source_level_db=80",
                                    "background.spl_db=50"]}  # fmt: skip


@pytest.mark.parametrize("mode", SURROUNDED)
def test_events_from_afar_in_rooms_over_noise(tmp_path: Path, device: str, mode: str) -> None:
    """Distance, a room, source levels, coloured noise, linear fades: the float64 reference and the CPU's mixer."""
    world = make_world(tmp_path, "events.fade_shape=linear", "events.propagation.distance_m=30", *SURROUNDED[mode])
    level = {"snr": {}, "source": {"source_level_db": 80 * 256, "snr_db": NO_LEVEL}}[mode]
    tail = {"impulse": PROCEDURAL_TAIL, "rt60_ms": 100, "drr_db": 3 * 256}
    plan = plan_of(
        (
            scene(2000, (NOISE, 0, 0), (0, 1, 33), noise_slope_db=(-3 * 256, 0), background_spl_db=50 * 256),
            [
                event(0, -150, 2000, distance_mm=30000, fade_out=30, **level),
                event(1, 300, 2000, 1, distance_mm=12000, fade_in=40, reversed=True, **tail, **level),
                event(3, 1400, 2000, 2, distance_mm=2500 if mode == "source" else 0, **tail, **level),
                event(2, 1500, 2000, distance_mm=1000 if mode == "source" else 0, **level),
            ],
        )
    )
    batch = device_mixer(world, device).render(plan, stems=True).to_host()
    cpu = Mixer(world.spec, world.bank, world.backgrounds).render(plan, stems=True)
    truth = reference_scene(plan, 0, world.spec, world.bank, world.backgrounds)

    assert batch.failures is cpu.failures is None
    assert np.abs(batch.audio[0] - truth.audio).max() < 1e-5 * np.abs(truth.audio).max()
    for stem, true_stem in zip(batch.stems, truth.stems, strict=True):
        assert np.abs(stem - true_stem).max() < 1e-5 * np.abs(true_stem).max()
    assert same_pcm(batch.audio, cpu.audio)
    assert batch.tail_samples.tolist() == cpu.tail_samples.tolist()
    for name in ("scene_gain_db", "level_dbfs", "gain_db", "snr_scene_db", "snr_local_db", "snr_band_db"):
        np.testing.assert_allclose(getattr(batch, name), getattr(cpu, name), atol=1e-5, err_msg=name)


@pytest.mark.parametrize("level", ["background.level_lufs=-35", "background.level_dbfs=-35"])
def test_loudness(tmp_path: Path, device: str, level: str) -> None:
    """SNR and level by loudness are the CPU's."""
    asked = ["background.level_dbfs=null", level] if "lufs" in level else [level]
    world = make_world(tmp_path, "events.snr.reference=loudness", *asked)
    plan = plan_of(
        (scene(2000, (0, 0, 0), level_db=-35), [event(0, 100, 2000, snr_db=256), event(3, 700, 2000, 1)]),
        (scene(2000, (0, 0, 0), (1, 0, 5), level_db=-20), [event(2, 100, 2000, snr_db=30 * 256)]),
    )
    batch = device_mixer(world, device).render(plan).to_host()
    cpu = Mixer(world.spec, world.bank, world.backgrounds).render(plan)

    assert batch.failures is cpu.failures is None
    assert same_pcm(batch.audio, cpu.audio)
    for name in ("scene_gain_db", "level_dbfs", "level_lufs", "gain_db", "snr_loudness_db", "snr_band_db"):
        np.testing.assert_allclose(getattr(batch, name), getattr(cpu, name), atol=1e-5, err_msg=name)


def test_a_tile_looks_at_its_own_events_only(world: World, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many events cost each tile what overlaps it: counted in the kernel, against the plan."""
    from synthscape.mix import device as module

    tile = 256
    monkeypatch.setattr(module, "TILE", tile)
    events = [event(2, 70 * k, 2048) for k in range(25)]
    plan = plan_of((scene(2048, (0, 0, 0)), events), (scene(700, (0, 0, 0)), [event(2, 300, 700)]))
    batch = device_mixer(world, device).render(plan)

    expected = [
        [
            sum(plan.clip_onset[e] < min(n, tile * (t + 1)) and min(plan.clip_offset[e], n) > tile * t for e in mine)
            for t in range(8)
        ]
        for n, mine in ((2048, range(25)), (700, range(25, 26)))
    ]
    assert batch.visited.tolist() == expected
    assert max(expected[0]) < 10
    assert same_pcm(batch.audio.cpu().numpy(), Mixer(world.spec, world.bank, world.backgrounds).render(plan).audio)


def test_loud_scenes_are_scaled_not_clipped(world: World, device: str) -> None:
    """A mix beyond -1 dBFS is scaled by exactly what the CPU scales it by; another in the batch is not."""
    plan = plan_of(
        (scene(1024, (0, 0, 0), level_db=-10), [event(0, 100, 1024, snr_db=20 * 256)]),
        (scene(1024, (0, 0, 0), level_db=-40), [event(0, 100, 1024)]),
    )
    batch = device_mixer(world, device).render(plan, stems=True)
    cpu = Mixer(world.spec, world.bank, world.backgrounds).render(plan)

    assert batch.scene_gain_db.tolist() == cpu.scene_gain_db.tolist()
    assert batch.scene_gain_db[0] < 0 == batch.scene_gain_db[1]
    assert 10 ** (-1.01 / 20) < batch.audio[0].abs().max() <= 10 ** (-1 / 20)
    assert same_pcm(batch.audio.cpu().numpy(), cpu.audio)


@pytest.fixture(scope="module")
def silent_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A clip and a background with nothing in their first half, which no store that is built here would keep."""
    world = make_world(tmp_path_factory.mktemp("silent"))
    rng = np.random.default_rng(0)
    with StoreWriter(world.bank.path.parent / "half", "pseudovox", RATE) as writer:
        for hz in (500.0, 900.0):
            clip = rng.standard_normal(1200)
            clip[:600] = 0
            writer.add(clip.astype(np.float32), {"species": f"Half {hz}", "low_hz": hz, "high_hz": 2 * hz})
    half = ClipStore.open(world.bank.path.parent / "half")
    return replace(world, bank=half, backgrounds=half)


@pytest.mark.parametrize(
    ("columns", "of_event", "message"),
    [
        ({"background_offset": (700, 0)}, {}, "nothing is heard of clip 0 of .* in samples 0 to 500"),
        ({}, {"clip_onset": -600, "clip_offset": 600}, "background 1 of .* is silent where it is used"),
    ],
)
def test_silence_fails_its_scene_by_name(
    silent_world: World, device: str, columns: dict[str, Any], of_event: dict[str, Any], message: str
) -> None:
    """Silent events and backgrounds fail their scene, as on the CPU, and leave no NaN; others are delivered."""
    silent = {"clip": 0, "clip_onset": 0, "clip_offset": 1200, "onset": 0, "offset": 500, **of_event}
    sound = {"clip": 0, "clip_onset": -600, "clip_offset": 600, "onset": 0, "offset": 500}
    plan = plan_of((scene(500, (1, 0, 0), **columns), [silent]), (scene(500, (1, 0, 700)), [sound]))
    batch = device_mixer(silent_world, device).render(plan, stems=True, pcm=True)
    cpu = Mixer(silent_world.spec, silent_world.bank, silent_world.backgrounds).render(plan)

    assert batch.failures == cpu.failures
    assert list(batch.failures) == [0]
    with pytest.raises(MixError, match=message):
        raise MixError(batch.failures[0])
    assert np.isnan(batch.level_dbfs).tolist() == np.isnan(cpu.level_dbfs).tolist()
    for tensor in (batch.audio, batch.pcm, batch.stems, batch.background):
        assert not tensor[0].any()
        assert tensor[1].any()
    assert np.isnan(batch.snr_band_db).tolist() == [True, False]
    assert np.isfinite(batch.audio.cpu().numpy()).all()


def test_what_a_scene_lacks_fails_it_alone(world: World, device: str) -> None:
    """A recorded level that isn't known, or a room that is silent, fails its scene as on the CPU; others are mixed."""
    plan = plan_of(
        (scene(600, (1, 0, 0), level_db=np.inf), [event(0, 0, 600)]),
        (scene(600, (0, 0, 0), level_db=np.inf), [event(0, 0, 600)]),
        (scene(600, (0, 0, 0)), [event(0, 0, 600), event(1, 0, 600, impulse=0)]),
    )
    mixers = [device_mixer(world, device), Mixer(world.spec, world.bank, world.backgrounds)]
    for mixer in mixers:
        mixer._background_peak[1] = np.nan

        def silent(plan: ScenePlan, i: int, e: int) -> None:
            raise MixError(f"event {e} of scene {i} is in a silent room")

        mixer._surroundings.kernel = silent
    batch, cpu = (mixer.render(plan) for mixer in mixers)

    assert batch.failures == cpu.failures
    assert batch.failures[2] == "event 3 of scene 2 is in a silent room"
    assert [bool(scene.any()) for scene in batch.audio] == [False, True, False]
    assert np.isfinite(batch.snr_scene_db).tolist() == [False, True, False, False]


def test_streaming_mixes_one_plan_ahead(world: World, device: str) -> None:
    """Plans come out in order, each as it is mixed by itself, the next one queued before."""
    plans = [plan_of((scene(600, (0, 0, 8 * k)), [event(1, 10 * k, 600)])) for k in range(3)]
    mixer, drawn = device_mixer(world, device, bank_limit_bytes=0), []

    def draw() -> Any:
        for k, plan in enumerate(plans):
            drawn.append(k)
            yield plan

    for k, batch in enumerate(mixer.stream(draw())):
        assert drawn[-1] == min(k + 1, 2)
        alone = device_mixer(world, device).render(plans[k])
        assert bytes(batch.audio.cpu().numpy()) == bytes(alone.audio.cpu().numpy())
    assert k == 2


def test_no_scenes_and_no_events(world: World, device: str) -> None:
    """An empty plan gives empty tensors; scenes without events are their background."""
    mixer = device_mixer(world, device)
    quiet = mixer.render(plan_of((scene(300, (0, 0, 0)), [])), stems=True)

    pairs = {name: np.zeros((0, 2), np.int64) for name in ("background", "background_offset")}
    nothing = replace(plan_of(), background_ratio=np.zeros((0, 2), np.int16), **pairs)
    empty = mixer.render(nothing, stems=True, pcm=True)
    assert empty.audio.shape == empty.stems.shape == (0, 0)
    assert empty.failures is None
    assert quiet.failures is None
    assert quiet.stems.shape == (0, 300)
    assert (quiet.audio == quiet.background).all()


def test_a_generator_mixes_on_its_device(
    spec_of: Callable[..., Spec], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SceneGenerator(spec, device): audio is a tensor there; tables and PCM are those of the CPU."""
    import torch

    from synthscape.mix import device as module

    if device == "cpu":  # the interpreter in place of a GPU
        monkeypatch.setattr(module, "_checked_device", lambda name: torch.device("cpu"))
    spec = spec_of("events.rate=null", "events.count=2", "duration=0.5", "background.mix.probability=0")
    on_cpu, on_device = (SceneGenerator(spec, name).render(range(2), stems=True) for name in ("cpu", "cuda"))

    assert on_device.audio.device.type == device
    assert on_device.stems.shape == on_cpu.stems.shape
    assert on_device.events["scene_id"].tolist() == on_cpu.events["scene_id"].tolist()
    assert len(on_cpu.events) > 1
    np.testing.assert_allclose(on_device.events["snr_band_db"], on_cpu.events["snr_band_db"], atol=1e-3)
    for i in range(2):
        assert np.abs(on_device.pcm(i).astype(int) - on_cpu.pcm(i)).max() <= 1
    with pytest.raises(SpecError, match="device 'tpu': expected auto, cpu, cuda, or cuda:1"):
        SceneGenerator(spec, "tpu")


def test_scene_gains_by_table_are_those_of_the_host(device: str) -> None:
    """For any float32 peak the device looks up exactly the step that scene_gain_db computes, also at its edges."""
    import torch

    from synthscape.mix.device import _gain_table

    thresholds, factors = (table.cpu() for table in _gain_table(torch.device(device)))
    rng = np.random.default_rng(0)
    edges = rng.choice(thresholds.numpy(), 300)
    peaks = np.concatenate([edges, np.nextafter(edges, np.float32(9e9)), 10 ** rng.uniform(-2, 3, 500), [0, 1]]).astype(
        np.float32
    )
    steps = torch.searchsorted(thresholds, torch.from_numpy(peaks))

    assert (-steps.numpy() / 256).tolist() == [scene_gain_db(float(peak)) for peak in peaks]
    np.testing.assert_allclose(factors[steps], [10 ** (scene_gain_db(float(peak)) / 20) for peak in peaks], rtol=1e-6)


def test_devices_there_are_not(world: World, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """A device that can't be used is refused, saying what to do."""
    from triton import knobs

    if device == "cpu":
        with pytest.raises(MixError, match=r"'cuda': torch .* finds no CUDA device; use device: cpu"):
            device_mixer(world, "cuda")
    else:
        with pytest.raises(MixError, match=r"there are \d+ CUDA devices"):
            device_mixer(world, "cuda:99")
    monkeypatch.setattr(knobs.runtime, "interpret", False)
    with pytest.raises(MixError, match="'cpu' is Mixer's"):
        device_mixer(world, "cpu")


def test_lengths_beyond_int32_are_refused(world: World, device: str) -> None:
    """Positions are 32-bit in the kernels: what could overflow them is refused, not wrapped."""
    mixer = device_mixer(world, device)
    plan = plan_of((scene(600, (0, 0, 0)), [event(0, 0, 600)]))
    huge: list[Callable[[], ScenePlan]] = [
        lambda: replace(plan, n_samples=np.array([2**31 - 10])),
        lambda: replace(plan, background_offset=np.array([[2**31 - 10, 0]])),
        lambda: replace(plan, clip_offset=np.array([2**31 + 10])),
    ]
    for make in huge:
        with pytest.raises(MixError, match="too long for the device's kernels"):
            mixer.render(make())
