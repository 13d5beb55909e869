"""Who waits for whom when buffers are reused: the order of calls, with a recorder in place of CUDA."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest


class Recorder:
    """Streams and events that note what is asked of them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._events = 0
        self.main = self.stream("main")

    def stream(self, name: str) -> Any:
        """A stream that notes what it waits for."""
        return SimpleNamespace(
            name=name,
            wait_event=lambda event: self.log.append(f"{name} waits for {event.name}"),
            wait_stream=lambda other: self.log.append(f"{name} waits for all of {other.name}"),
        )

    def event(self) -> Any:
        """An event: of the four of a pair of slots, two are copies, two are reads."""
        name = f"{'copy' if self._events < 2 else 'read'} {self._events % 2}"
        self._events += 1
        return SimpleNamespace(
            name=name,
            record=lambda stream: self.log.append(f"{name} recorded on {stream.name}"),
            synchronize=lambda: self.log.append(f"host waits for {name}"),
        )


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """In place of CUDA."""
    import torch

    from synthscape.mix import device_slots

    recorder = Recorder()
    cuda = SimpleNamespace(
        Stream=lambda device: recorder.stream("side"),
        Event=recorder.event,
        current_stream=lambda device: recorder.main,
        stream=lambda stream: nullcontext(),
    )

    class There(torch.Tensor):
        def record_stream(self, stream: Any) -> None:
            recorder.log.append(f"memory is kept for {stream.name}")

    monkeypatch.setattr(device_slots, "cuda", cuda)
    monkeypatch.setattr(device_slots, "_pinned", lambda size: torch.zeros(size, dtype=torch.uint8))
    monkeypatch.setattr(
        device_slots, "_there", lambda size, device: torch.zeros(size, dtype=torch.uint8).as_subclass(There)
    )
    return recorder


def test_buffers_are_reused_only_when_nobody_reads_them(recorder: Recorder) -> None:
    """The host waits for the copy before it writes, the copy for the kernels that read, the kernels for the copy."""
    import torch

    from synthscape.mix.device_slots import Slots

    slots = Slots(torch.device("cuda", 0))
    held = []
    for k in range(3):
        recorder.log.clear()
        held.append(slots.send_arrays({"a": np.full(5, k), "b": np.arange(3, dtype=np.int16) + k}))
        slots.used()
    kept = {id(buffer) for buffer in slots._there}

    assert recorder.log == [
        "host waits for copy 0", "memory is kept for main", "side waits for read 0", "copy 0 recorded on side",
        "main waits for copy 0", "read 0 recorded on main",
    ]  # fmt: skip
    assert [tensors["a"].tolist() for tensors in held[1:]] == [[1] * 5, [2] * 5]
    assert held[2]["b"].dtype == torch.int16
    assert held[2]["b"].tolist() == [2, 3, 4]
    slots.send_arrays({"a": np.zeros(2)})
    assert {id(buffer) for buffer in slots._there} == kept


def test_a_larger_buffer_waits_for_what_had_its_memory(recorder: Recorder) -> None:
    """A new device buffer is written by the side stream only when what is queued is through."""
    import torch

    from synthscape.mix.device_slots import Slots

    slots = Slots(torch.device("cuda", 0))
    slots.send_samples([np.ones(3, np.int16)])
    recorder.log.clear()
    slots.send_samples([np.ones(9, np.int16), np.ones(5000, np.int16)])  # the last was never said to be used

    assert recorder.log[0] == "read 0 recorded on main"
    assert recorder.log.index("side waits for all of main") < recorder.log.index("copy 1 recorded on side")
    starts, packed = slots.send_samples([np.arange(9, dtype=np.int16), np.arange(5, dtype=np.int16)])
    assert starts.tolist() == [0, 16]
    assert packed[:9].tolist() == list(range(9))
    assert packed[16:21].tolist() == list(range(5))
