"""Active part, band and levels of clips, against calls of known bounds and against independent formulas."""

from __future__ import annotations

import numpy as np
import pyloudnorm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthscape.bank.conditioning import condition
from synthscape.bank.features import (
    active_part,
    background_features,
    call_features,
    effective_bandwidth_hz,
    loudest_block_dbfs,
    loudness,
    own_band,
)
from synthscape_kernels.ratios import GRID

RATE = 16000
Samples = NDArray[np.float64]


def stored(samples: Samples) -> NDArray[np.float32]:
    """As a store would keep it: peak-normalised, in steps of int16."""
    return (np.rint(samples / np.abs(samples).max() * 32767) / 32768).astype(np.float32)


def tone(hz: float, duration_s: float, phase: float = 0.3, rate: int = RATE) -> Samples:
    """A sine of amplitude 1."""
    return np.sin(2 * np.pi * hz * np.arange(round(duration_s * rate)) / rate + phase)


def _coloured(rng: np.random.Generator, n: int, colour: str) -> Samples:
    spectrum = np.fft.rfft(rng.normal(size=n))
    frequency = np.fft.rfftfreq(n, 1 / RATE)
    spectrum /= {"white": 1.0, "pink": np.sqrt(np.maximum(frequency, 20)), "ship": np.maximum(frequency, 50)}[colour]
    noise = np.fft.irfft(spectrum, n)
    return noise / noise.std()


def _call(rng: np.random.Generator, shape: str, n: int) -> Samples:
    t = np.arange(n) / RATE
    low, high = np.exp(rng.uniform(np.log(800), np.log(5500), 2))
    edges = np.ones(n)
    edges[:16] = np.sin(np.pi / 2 * (np.arange(16) + 0.5) / 16) ** 2
    edges[-16:] = edges[15::-1]
    if shape == "tone":
        return np.sin(2 * np.pi * low * t + rng.uniform(0, 6)) * edges
    if shape == "sweep":
        return np.sin(2 * np.pi * (low * t + (high - low) * t**2 / 2 / t[-1])) * edges
    if shape == "stack":
        base = rng.uniform(400, 1200)
        return sum(np.sin(2 * np.pi * base * k * t + rng.uniform(0, 6)) / k for k in (1, 2, 3, 4, 5)) * edges
    period, on = int(rng.uniform(0.02, 0.04) * RATE), int(0.012 * RATE)
    pulses = np.sin(2 * np.pi * low * t) * (np.arange(n) % period < on)
    return pulses[: (n - on) // period * period + on]  # ends with a whole pulse


def test_made_up_calls_are_found_within_5_ms():
    """1200 calls of known bounds in noise, hum and clicks: every onset and offset within 5 ms."""
    rng = np.random.default_rng(42)
    errors_ms = []
    for i in range(1200):
        shape = ("tone", "sweep", "stack", "pulses")[i % 4]
        call = _call(rng, shape, int(rng.uniform(0.05, 0.4) * RATE))
        before, after = (int(rng.uniform(0.05, 0.35) * RATE) for _ in range(2))
        clip = np.zeros(before + len(call) + after)
        clip[before : before + len(call)] = call / np.sqrt(np.mean(call**2)) * 0.1
        clip += (
            _coloured(rng, len(clip), ("white", "pink", "ship")[i // 4 % 3]) * 0.1 * 10 ** (-rng.uniform(15, 40) / 20)
        )
        if i // 12 % 2:
            t = np.arange(len(clip)) / RATE
            clip += rng.uniform(0.02, 0.3) * (np.sin(2 * np.pi * 50 * t) + 0.3 * np.sin(2 * np.pi * 150 * t + 1))
        if i // 24 % 2:
            for place in (
                0,
                int(before * rng.uniform(0, 0.8)),
                before + len(call) + int(after * rng.uniform(0.2, 0.99)),
            ):
                clip[place] += rng.choice([-1, 1]) * rng.uniform(0.2, 0.8)
        clip = stored(condition(clip.astype(np.float32), RATE)[0])
        active = active_part(clip, RATE, own_band(clip, RATE))
        errors_ms.append([(active.start - before) / 16, (active.end - before - len(call)) / 16])

    worst = np.abs(errors_ms).max(axis=1)
    assert np.sum(worst > 5) == 0, f"{np.sum(worst > 5)} of {len(worst)} beyond 5 ms, worst {worst.max():.1f} ms"


@pytest.mark.parametrize("hz", [100, 440, 1000, 3000, 7000])
@pytest.mark.parametrize("phase", [0.0, np.pi / 2, 1.0, 4.0])
def test_bare_tone_is_active_throughout(hz, phase):
    """A tone burst without anything around it is active from its first to its last sample, whatever its phase."""
    clip = stored(tone(hz, 0.3, phase))
    features = call_features(clip, RATE)

    assert (features["active_start"], features["active_end"]) == (0, len(clip))
    assert features["duty"] == 1
    assert features["clip_snr_db"] is None
    assert features["signal_share"] == 1


def test_padding_is_not_counted():
    """A 0.2 s call in a 3.2 s clip has the level, and the bounds, of the 0.2 s."""
    clip = np.zeros(int(3.2 * RATE))
    call = tone(2000, 0.2)
    clip[16000:19200] = call
    features = call_features(stored(clip), RATE)

    assert features["rms_db"] == pytest.approx(10 * np.log10(np.mean((call / np.abs(call).max()) ** 2)), abs=0.15)
    assert abs(features["active_start"] - 16000) <= 80
    assert abs(features["active_end"] - 19200) <= 80


def test_call_in_ship_noise_is_found():
    """A whistle 25 dB weaker than the rumble it lies in is found by its own band."""
    rng = np.random.default_rng(3)
    clip = _coloured(rng, 2 * RATE, "ship")
    clip[12000:18000] += tone(3500, 6000 / RATE) * np.sqrt(2) * 10 ** (-25 / 20)
    features = call_features(stored(clip), RATE)

    assert 2900 < features["low_hz"] < 3500 < features["high_hz"] < 4100
    assert abs(features["active_start"] - 12000) <= 80
    assert abs(features["active_end"] - 18000) <= 80


def test_click_trains_count_when_there_is_nothing_longer():
    """Runs of 10 ms or less count if there are no others: from the first click to the last."""
    clip = np.zeros(RATE)
    clip[4000:12001:1600] = 1
    features = call_features(stored(clip), RATE)

    assert abs(features["active_start"] - 4000) <= 80
    assert abs(features["active_end"] - 12001) <= 80
    assert features["duty"] < 0.2


def test_signal_share_and_snr_are_those_of_the_mixture():
    """A call in white noise of known power: k = 1 - P_floor / P and its SNR come out as mixed."""
    rng = np.random.default_rng(5)
    for snr_db in (0.0, 6.0, 20.0):
        clip = rng.normal(size=4 * RATE) * 0.02
        clip[RATE : 3 * RATE] += tone(3000, 2.0) * 0.02 * np.sqrt(2) * 10 ** (snr_db / 20)
        features = call_features(stored(clip), RATE)
        signal_share = 10 ** (snr_db / 10) / (1 + 10 ** (snr_db / 10))

        assert features["clip_snr_db"] == pytest.approx(snr_db, abs=0.3)
        assert features["signal_share"] == pytest.approx(signal_share, abs=0.02)


def test_energy_quarters_are_exact():
    """A cut keeps a quarter of the energy exactly when the integer comparison with q25 or q75 says so."""
    rng = np.random.default_rng(6)
    for n in (1, 2, 3, 17, 800, 4000):
        clip = stored(rng.normal(size=n))
        features = call_features(clip, RATE)
        a, b = features["active_start"], features["active_end"]
        energy = np.cumsum(np.concatenate([[0.0], clip[a:b].astype(float) ** 2]))
        for cut in range(a, b + 1):
            kept_before, kept_after = energy[cut - a], energy[-1] - energy[cut - a]

            assert (cut >= features["energy_q25"]) == (kept_before >= energy[-1] * 0.25)
            assert (cut <= features["energy_q75"]) == (kept_after >= energy[-1] * 0.25 * (1 - 1e-12))


@pytest.mark.parametrize("hz", [300, 2000, 5000, 7500])
def test_min_ratio_follows_nyquist(hz):
    """A tone at f may be played at ratio r if f / r stays under 0.9 Nyquist; the index is the lowest such ratio."""
    index = call_features(stored(tone(hz, 0.5)), RATE)["min_ratio_index"]
    fits = [hz / float(ratio) <= 0.9 * RATE / 2 for ratio in GRID]

    assert abs(index - fits.index(True)) <= 1


@pytest.mark.parametrize("base_hz", [150, 440, 1200, 2700, 6000])
@pytest.mark.parametrize("harmonics", [1, 4])
def test_fundamental(base_hz, harmonics):
    """The fundamental of tones and harmonic stacks, within 1 %."""
    clip = sum(tone(base_hz * k, 0.4, phase=k) / k for k in range(1, harmonics + 1) if base_hz * k < 7800)

    assert call_features(stored(clip), RATE)["f0_hz"] == pytest.approx(base_hz, rel=0.01)


def test_noise_has_no_fundamental():
    """A burst of noise is not tonal, nor is a click."""
    assert call_features(stored(np.random.default_rng(1).normal(size=8000)), RATE)["f0_hz"] is None
    assert call_features(stored(np.eye(1, 900, 400)[0]), RATE)["f0_hz"] is None


def test_bandwidth_shows_what_was_cut():
    """Sound that was low-passed (MP3, upsampling) has that as its bandwidth; sound that wasn't reaches Nyquist."""
    rng = np.random.default_rng(2)
    spectrum = np.fft.rfft(rng.normal(size=32000))
    whole = np.fft.irfft(spectrum)
    spectrum[np.fft.rfftfreq(32000, 1 / RATE) > 5000] = 0

    assert effective_bandwidth_hz(stored(whole), RATE) > 7700
    assert effective_bandwidth_hz(stored(np.fft.irfft(spectrum)), RATE) == pytest.approx(5000, abs=500)


def test_loudness_is_that_of_pyloudnorm():
    """From 0.5 s on the loudness is pyloudnorm's; shorter sound has the loudness of its repetition."""
    rng = np.random.default_rng(4)
    for rate in (16000, 48000):
        for seconds in (0.5, 2.3):
            samples = rng.normal(size=round(seconds * rate)) * rng.uniform(0.01, 0.3)
            samples[: len(samples) // 3] *= 1e-3
            expected = pyloudnorm.Meter(rate, filter_class="DeMan").integrated_loudness(samples)

            assert loudness(samples, rate) == pytest.approx(expected, abs=0.01)
        short = rng.normal(size=rate // 50)
        assert loudness(short, rate) == pytest.approx(
            pyloudnorm.Meter(rate, filter_class="DeMan").integrated_loudness(np.tile(short, 25)), abs=0.01
        )


def test_band_holds_95_percent():
    """Of white noise in a gap of silence, the band is the middle 95 % of the spectrum."""
    clip = np.zeros(3 * RATE)
    clip[RATE : 2 * RATE] = np.random.default_rng(8).normal(size=RATE)
    features = call_features(stored(clip), RATE)

    assert features["low_hz"] == pytest.approx(0.025 * 8000, abs=60)
    assert features["high_hz"] == pytest.approx(0.975 * 8000, abs=60)
    assert features["band_fraction"] == pytest.approx(0.95, abs=0.01)


@settings(max_examples=60)
@given(
    n=st.integers(1, 3000),
    kind=st.sampled_from(["noise", "click", "constant", "tone", "two"]),
    rate=st.sampled_from([8000, 16000, 48000, 256000]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_clip_has_features(n, kind, rate, seed):
    """From one sample on every clip has a level, a band and an active part that lies inside it; nothing is NaN."""
    rng = np.random.default_rng(seed)
    clip = {
        "noise": rng.normal(size=n),
        "click": np.eye(1, n, int(rng.integers(n)))[0],
        "constant": np.ones(n),
        "tone": tone(rng.uniform(1, rate / 2), n / rate, rate=rate)[:n] if n > 2 else np.ones(n),
        "two": np.where(np.arange(n) < n // 2, 1e-5, 1.0),
    }[kind]
    clip = stored(clip if np.abs(clip).max() > 0 else np.ones(n))
    features = call_features(clip, rate)

    assert 0 <= features["active_start"] < features["active_end"] <= n
    assert features["active_start"] <= features["energy_q75"] <= features["active_end"]
    assert features["active_start"] < features["energy_q25"] <= features["active_end"]
    assert 0 <= features["low_hz"] <= features["high_hz"] <= rate / 2
    assert 0 < features["duty"] <= 1
    assert 0.1 <= features["signal_share"] <= 1
    assert -0.01 <= features["band_fraction"] <= 1.01
    assert all(value is None or np.isfinite(value) for value in features.values())
    assert np.isfinite(background_features(clip, rate)["rms_db"])


def test_loudest_block():
    """The level of the loudest 50 ms is that of its samples, wherever the call is and however short the clip."""
    clip = np.zeros(RATE, dtype=np.float32)
    clip[8000:8800] = 0.5

    assert loudest_block_dbfs(clip, RATE) == pytest.approx(20 * np.log10(0.5), abs=1e-6)
    assert loudest_block_dbfs(np.float32([0.1]), RATE) == pytest.approx(-20, abs=1e-5)
    assert loudest_block_dbfs(np.zeros(5, dtype=np.float32), RATE) < -200


def test_conditioning_removes_dc_and_rumble_only():
    """DC and 5 Hz go, tones from 60 Hz on stay, without delay; cutoff 0 removes DC only; the input is not changed."""
    rumble, call = tone(5, 2.0), tone(60, 2.0)
    mixed = (0.3 + 0.5 * rumble + 0.1 * call).astype(np.float32)
    kept = mixed.copy()
    clean, dc = condition(mixed, RATE)
    only_dc, _ = condition(mixed, RATE, 0)
    middle = slice(4000, -4000)

    assert np.array_equal(mixed, kept)
    assert dc == pytest.approx(np.mean(mixed, dtype=float), abs=1e-9)
    assert np.abs(clean[middle] - 0.1 * call[middle]).max() < 0.005
    assert np.allclose(only_dc, mixed - dc, atol=1e-6)
    for n in (1, 2, 5, 50, 799, 801):
        short, _ = condition(np.arange(n, dtype=np.float32), RATE)
        assert len(short) == n
        assert np.isfinite(short).all()


def test_a_pulse_train_is_not_lost_to_one_longer_sound(rng: np.random.Generator) -> None:
    """Loud pulses of 4 ms are the call, though a faint tone of 60 ms among them is a longer run."""
    samples = rng.normal(size=RATE) * 1e-4
    for onset in range(2000, 14000, 1000):
        samples[onset : onset + 64] += tone(2500, 0.004)
    samples[6500:7460] += 0.03 * tone(2500, 0.06)
    clip = stored(samples)
    active = active_part(clip, RATE, own_band(clip, RATE))

    assert abs(active.start - 2000) < 0.005 * RATE
    assert abs(active.end - 13064) < 0.005 * RATE


@pytest.mark.parametrize("n_clicks", [1, 2])
def test_a_click_or_two_are_no_train(rng: np.random.Generator, n_clicks: int) -> None:
    """Loud clicks far from a call don't stretch its active part."""
    samples = rng.normal(size=RATE) * 1e-4
    samples[6000:10000] += 0.3 * tone(2500, 0.25)
    for onset in (1000, 15000)[:n_clicks]:
        samples[onset : onset + 5] += 1.0
    clip = stored(samples)
    active = active_part(clip, RATE, own_band(clip, RATE))

    assert abs(active.start - 6000) < 0.005 * RATE
    assert abs(active.end - 10000) < 0.005 * RATE
