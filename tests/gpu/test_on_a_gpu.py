"""What only a GPU can show: larger scenes, streams, no waiting, no growth: ``python -m pytest tests/gpu -m gpu``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from synthscape.bank.store import ClipStore
from synthscape.labels.frames import frame_counts, frame_counts_on
from synthscape.mix.mixer import Mixer
from synthscape.plan.plan import ScenePlan
from synthscape.plan.planner import Planner
from synthscape.spec import Spec
from tests.gpu.test_device_mixer import same_pcm

pytestmark = pytest.mark.gpu

SpecOf = Callable[..., Spec]
BUSY = (
    "events.rate=null", "events.count=8", "duration={uniform: [2, 6]}", "background.mix.probability=0.5",
    "events.edges=truncate", "events.reverse=0.3",
)  # fmt: skip
CASES = {
    "copied": ["events.resample=1"],
    "resampled": ["events.resample={loguniform: [0.5, 2]}", "background.resample={choice: [0.8, 1, 1.25]}"],
    "far away": ["events.propagation.distance_m={loguniform: [2, 300]}"],
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore) -> Any:
    """A spec, its stores and a plan of 48 scenes."""
    spec = spec_of(*BUSY, *CASES[request.param])
    return spec, bank, backgrounds, Planner(spec, bank, backgrounds).plan(range(48))


def mixer_of(case: Any, device: str, **options: Any) -> Any:
    """A mixer on the device."""
    from synthscape.mix.device import DeviceMixer

    spec, bank, backgrounds, _ = case
    return DeviceMixer(spec, bank, backgrounds, None, device, **options)


def parts(plan: ScenePlan) -> list[ScenePlan]:
    """The plan in batches of different size."""
    from synthscape.labels.batches import take_scenes

    edges = [0, 5, 25, 26, 40, 48]
    return [take_scenes(plan, np.arange(a, b)) for a, b in itertools.pairwise(edges)]


def test_scenes_are_those_of_the_cpu(case: Any, device: str) -> None:
    """PCM16 within 1 LSB in all samples and equal in more than 99.9 %, band SNR to 1e-3 dB, other levels to 1e-4."""
    spec, bank, backgrounds, plan = case
    cpu = Mixer(spec, bank, backgrounds).render(plan, stems=True)
    batch = mixer_of(case, device).render(plan, stems=True).to_host()

    assert batch.failures == cpu.failures
    assert same_pcm(batch.audio, cpu.audio)
    assert same_pcm(batch.stems, cpu.stems)
    for name in ("scene_gain_db", "level_dbfs", "gain_db", "snr_scene_db", "snr_local_db", "snr_band_db"):
        atol = 1e-3 if name == "snr_band_db" else 1e-4  # the CPU's transforms are float32
        np.testing.assert_allclose(getattr(batch, name), getattr(cpu, name), atol=atol, err_msg=name)


def test_every_way_gives_the_same_bits(case: Any, device: str) -> None:
    """Again, streamed, filtered twice, in other batches, on another stream: the same bits and the same levels."""
    import torch

    plan = case[3]
    whole = mixer_of(case, device).render(plan)
    audio, level = whole.audio.cpu().numpy(), whole.snr_band_db
    side: Any = torch.cuda.Stream()
    for options in ({}, {"bank_limit_bytes": 0}, {"keep_pieces": False}):
        mixer = mixer_of(case, device, **options)
        assert bytes(mixer.render(plan).audio.cpu().numpy()) == bytes(audio)
        with torch.cuda.stream(side):
            at = 0
            for batch in mixer.stream(parts(plan)):
                some = batch.audio.cpu().numpy()
                assert bytes(some) == bytes(np.ascontiguousarray(audio[at : at + len(some), : some.shape[1]]))
                of_events = slice(*plan.event_offsets[[at, at + len(some)]])
                assert batch.snr_band_db.tolist() == level[of_events].tolist()
                at += len(some)
        assert at == len(plan)


def test_mixing_waits_for_nothing(case: Any, device: str) -> None:
    """Once its tables are there, queueing a batch makes the host wait for no kernel."""
    import torch

    mixer = mixer_of(case, device)
    mixer.render(case[3])
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch = mixer.render(case[3], pcm=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert batch.failures is None


def test_memory_stays_flat(case: Any, device: str) -> None:
    """Mixing the same again and again, streamed, keeps no memory on the device."""
    import torch

    mixer, some = mixer_of(case, device, bank_limit_bytes=0), parts(case[3])
    used = []
    for _ in range(12):
        for batch in mixer.stream(some):
            assert batch.failures is None
        del batch
        torch.cuda.synchronize()
        used.append(torch.cuda.memory_allocated())
    assert max(used[2:]) == min(used[2:])


def test_memory_that_is_not_there(case: Any, device: str) -> None:
    """Scenes that don't fit are refused with advice, and the next ones are mixed."""
    import torch

    from synthscape.errors import MixError

    mixer = mixer_of(case, device)
    expected = mixer.render(case[3]).audio.cpu()
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / torch.cuda.mem_get_info()[1])
    try:
        with pytest.raises(MixError, match="don't fit in the memory of cuda:0; ask for fewer at a time"):
            [mixer.render(case[3], stems=True) for _ in range(1000)]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert (mixer.render(case[3]).audio.cpu() == expected).all()


def test_long_scenes_and_many_events(spec_of: SpecOf, bank: ClipStore, backgrounds: ClipStore, device: str) -> None:
    """Ten minutes with hundreds of events: right to the last sample, each tile looking at its own events only."""
    spec = spec_of("events.rate=null", "events.count=400", "duration=600", "events.overlap.max_polyphony=null",
                   "events.max_per_scene=400")  # fmt: skip
    plan = Planner(spec, bank, backgrounds).plan(range(2))
    batch = mixer_of((spec, bank, backgrounds, plan), device).render(plan)

    assert same_pcm(batch.audio.cpu().numpy(), Mixer(spec, bank, backgrounds).render(plan).audio)
    assert 0 < batch.visited.max() < 40


def test_frame_targets(case: Any, device: str) -> None:
    """Counts of real plans are the CPU's."""
    plan = case[3]
    n_classes = int(plan.class_id.max()) + 1
    expected = frame_counts(plan, n_classes, 320, least_samples=100)

    np.testing.assert_array_equal(frame_counts_on(device, plan, n_classes, 320, least_samples=100).cpu(), expected)


def test_a_dataset_is_that_of_the_cpu(spec_of: SpecOf, tmp_path: Any) -> None:
    """Rendered on the device with two threads, files hold what the CPU's do, to 1 LSB; on one kind it goes on."""
    from synthscape import open_dataset, render
    from synthscape.errors import DatasetError

    made = {}
    for device in ("cpu", "cuda"):
        spec = spec_of("items=40", "duration=3", f"output.dir={tmp_path / device}")
        render(spec, device=device, workers=2)
        made[device] = open_dataset(tmp_path / device)
    for name in made["cpu"].scenes["scene_id"]:
        assert same_pcm(made["cuda"].audio(name), made["cpu"].audio(name))
    with pytest.raises(DatasetError, match="device"):
        render(spec_of("items=80", "duration=3", f"output.dir={tmp_path / 'cpu'}"), device="cuda")
