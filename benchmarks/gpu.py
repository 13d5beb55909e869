"""Mixing on a GPU: each kernel against its bound, copies to the host, the bank on the device against streamed.

``python -m benchmarks --only gpu``
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.stores import RATE, make_backgrounds, make_calls, spec_over
from benchmarks.tables import NotMeasuredError, Section, number, spread
from synthscape.plan.plan import ScenePlan
from synthscape.spec import Spec
from synthscape.tasks.generator import SceneGenerator

DURATION_S, EVENTS, SCENES = 10, 8, 128
CASES = {"none resampled": "1", "all resampled": "{choice: [0.84, 0.92, 1.09, 1.19]}"}
BOUNDS = (
    "Bounds: memory is the bytes a kernel must read and write, each once, over the bandwidth of a device-to-device "
    "copy of 1 GiB measured here. The filter is also bound by the load units: 2 H taps a sample, a tap and a sample of "
    "the clip loaded for each, 32 threads a clock on each multiprocessor: seconds = samples x 2 H x 2 / (32 x "
    "multiprocessors x clock). The bound is the larger of the two times; target: at least 50 % of it."
)


def run(folder: Path, quick: bool) -> Section:
    try:
        import torch
    except ImportError:
        raise NotMeasuredError("No CUDA device: torch is not installed") from None
    if not torch.cuda.is_available():
        raise NotMeasuredError(f"No CUDA device: torch {torch.__version__} finds none")

    scenes, repeats = (8, 2) if quick else (SCENES, 20)
    calls = make_calls(folder / "gpu-calls", n=200, shortest_s=1.0, longest_s=1.0)
    backgrounds = make_backgrounds(folder / "gpu-backgrounds")
    device = _Device()
    section = Section(
        "Mixing on a GPU",
        f"{device.name}, {device.multiprocessors} multiprocessors at {device.clock_hz / 1e9:.2f} GHz, "
        f"{device.bytes_per_s / 1e9:.0f} GB/s; {scenes} scenes of {DURATION_S} s at {RATE} Hz, {EVENTS} events of 1 s, "
        f"SNR by band. Medians (lowest to highest) of {repeats} repeats. {BOUNDS}",
    )
    for case, ratios in CASES.items():
        overrides = [f"items={scenes}", f"duration={DURATION_S}", f"events.count={EVENTS}"]
        spec = spec_over(calls.path, backgrounds.path, [*overrides, f"events.resample={ratios}"])
        generator = SceneGenerator(spec)
        plan = generator.plan(range(scenes))
        _kernels(section, case, spec, generator, plan, device, repeats)
        _throughput(section, case, spec, generator, plan, repeats)
    return section


class _Device:
    """What the bounds are made of."""

    def __init__(self) -> None:
        import torch
        from triton.runtime import driver

        index = torch.cuda.current_device()
        properties = driver.active.utils.get_device_properties(index)
        self.name = torch.cuda.get_device_name(index)
        self.multiprocessors = int(properties["multiprocessor_count"])
        self.clock_hz = 1000.0 * properties["sm_clock_rate"]
        source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        self.bytes_per_s = 2 * 2**30 / min(_timed(lambda: target.copy_(source)) for _ in range(10))


def _timed(do: Callable[[], object]) -> float:
    """Seconds on the device, without the time to launch: that passes while the device is kept busy."""
    import torch

    busy: Any = torch.cuda
    busy._sleep(2_000_000)  # clocks, about 1 ms
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    do()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000


def _mixer(spec: Spec, generator: SceneGenerator, **options: Any) -> Any:
    from synthscape.mix.device import DeviceMixer

    return DeviceMixer(spec, generator.bank, generator.backgrounds, None, "cuda", **options)


def _kernels(
    section: Section, case: str, spec: Spec, generator: SceneGenerator, plan: ScenePlan, device: _Device, repeats: int
) -> None:
    """Time of each kernel beside its bound."""
    from synthscape_kernels import triton_launch

    mixer = _mixer(spec, generator)
    launch, took = triton_launch.launch, defaultdict(list)
    mixer.render(plan).measured  # noqa: B018  (waits; compiles what is not compiled yet)

    def timed_launch(kernel: Any, programs: int, *arguments: Any, **constants: Any) -> None:
        if programs:
            name = kernel.__name__
            took[name].append(_timed(lambda: launch(kernel, programs, *arguments, **constants)))

    per_repeat: dict[str, list[float]] = defaultdict(list)
    triton_launch.launch = timed_launch
    try:
        for _ in range(repeats):
            took.clear()
            mixer.render(plan, pcm=True)
            for name, seconds in took.items():
                per_repeat[name].append(sum(seconds))
    finally:
        triton_launch.launch = launch
    bounds = _bounds(plan, device)
    rows = []
    for name, seconds in per_repeat.items():
        memory_s, load_s = bounds.get(name, (float("nan"), 0.0))
        bound_s = max(memory_s, load_s)
        known = bound_s > 0
        rows.append(
            [
                name,
                spread([1e6 * s for s in seconds]),
                number(1e6 * memory_s) if known else "-",
                number(1e6 * load_s) if load_s else "-",
                f"{100 * bound_s / median(seconds):.0f} %" if known else "-",
            ]
        )
    section.add([f"{case}: kernel", "us", "bound by memory, us", "bound by loads, us", "of the bound"], rows)


def _bounds(plan: ScenePlan, device: _Device) -> dict[str, tuple[float, float]]:
    """Least seconds of the kernels whose work is clear, by memory and by the load units."""
    from synthscape_kernels.filters import half_taps

    scene = np.repeat(np.arange(len(plan)), np.diff(plan.event_offsets))
    heard = np.minimum(plan.clip_offset, plan.n_samples[scene]) - np.maximum(plan.clip_onset, 0)
    active = plan.offset - plan.onset
    p, q = plan.ratio_p[plan.ratio].astype(int), plan.ratio_q[plan.ratio].astype(int)
    filtered = p != q
    taps = np.array([2 * half_taps(int(a), int(b)) for a, b in zip(p, q, strict=True)])
    out = int(plan.n_samples.sum())
    layers = int((plan.background >= 0).sum(axis=1) @ plan.n_samples)
    stored = np.where(filtered, 4, 2)  # bytes a sample: its piece, or its clip
    written = 4 * int(heard[filtered].sum())
    memory = {
        "layer_power": 2 * layers,
        "play_events": written + int((2 * heard * q / p)[filtered].sum()),
        "power": int((active * (stored + 2 + 8)).sum()),
        "mix": 4 * out + 2 * layers + int((heard * stored).sum()),
        "finish": (4 + 2) * out,
    }
    loads = {"play_events": 2 * int((heard * taps)[filtered].sum())}
    per_s = 32 * device.multiprocessors * device.clock_hz
    return {name: (size / device.bytes_per_s, loads.get(name, 0) / per_s) for name, size in memory.items()}


def _throughput(
    section: Section, case: str, spec: Spec, generator: SceneGenerator, plan: ScenePlan, repeats: int
) -> None:
    """Scenes per second: on the device, with the copy to the host, with the bank streamed."""
    import torch

    jobs = {"bank on the device": _mixer(spec, generator), "bank streamed": _mixer(spec, generator, bank_limit_bytes=0)}
    rows = []
    for name, mixer in jobs.items():
        for _ in mixer.stream([plan, plan]):
            pass
        torch.cuda.synchronize()
        rates = []
        for _ in range(max(2, repeats // 4)):
            begin = time.perf_counter()
            for _ in mixer.stream([plan] * 4):
                pass
            torch.cuda.synchronize()
            rates.append(4 * len(plan) / (time.perf_counter() - begin))
        rows.append([name, spread(rates), number(median(rates) * DURATION_S), "-"])
    batch = jobs["bank on the device"].render(plan, pcm=True)
    for name, tensor in {"float32": batch.audio, "PCM16": batch.pcm}.items():
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        source = tensor.contiguous()
        seconds = [
            _timed(lambda host=host, source=source: host.copy_(source, non_blocking=True)) for _ in range(repeats)
        ]
        size = source.numel() * source.element_size()
        rows.append(
            [f"{name} to the host", spread([len(plan) / s for s in seconds]),
             number(median(len(plan) / s for s in seconds) * DURATION_S), number(size / median(seconds) / 1e9)]
        )  # fmt: skip
    section.add([case, "scenes per second", "x real time", "GB/s"], rows)
