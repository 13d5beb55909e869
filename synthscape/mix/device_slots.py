"""Slots: how the host's arrays reach a device while it is busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synthscape.bank.schema import ALIGN_SAMPLES
from synthscape_kernels.triton_mix import TILE

Arrays = dict[str, NDArray[Any]]
Tensors = dict[str, torch.Tensor]

cuda: Any = torch.cuda


class Slots:
    """Two reused buffers in pinned memory, with their copies on a device, filled in turn.

    A copy runs on a side stream. The next kernels on the current stream wait for it; the host fills a buffer again only
    when its copy is through, and a copy overwrites a device buffer only when the kernels that read it are (``used``).
    On a CPU the buffer is the copy.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._cuda = device.type == "cuda"
        self._turn = 0
        self._host: list[torch.Tensor | None] = [None, None]
        self._there: list[torch.Tensor | None] = [None, None]
        self._sent = False
        if self._cuda:
            self._side = cuda.Stream(device)
            self._copied, self._read = [cuda.Event(), cuda.Event()], [cuda.Event(), cuda.Event()]

    def send(self, size: int, fill: Callable[[NDArray[np.uint8]], None]) -> torch.Tensor:
        """Let ``fill`` write ``size`` bytes, and give them on the device, uint8."""
        if not self._cuda:
            buffer = torch.zeros(size, dtype=torch.uint8)
            fill(buffer.numpy())
            return buffer
        self.used()  # what a failed render has queued still reads the last one
        turn = self._turn
        main = cuda.current_stream(self._device)
        self._copied[turn].synchronize()
        host, there = self._host[turn], self._there[turn]
        if host is None or there is None or len(host) < size:
            room = size + size // 4
            host = self._host[turn] = _pinned(room)
            there = self._there[turn] = _there(room, self._device)
            there.record_stream(self._side)
            self._side.wait_stream(main)  # its memory may just have been freed by what still runs there
        there.record_stream(main)
        fill(host[:size].numpy())
        self._side.wait_event(self._read[turn])
        with cuda.stream(self._side):
            there[:size].copy_(host[:size], non_blocking=True)
            self._copied[turn].record(self._side)
        main.wait_event(self._copied[turn])
        self._sent = True
        return there[:size]

    def send_arrays(self, arrays: Arrays) -> Tensors:
        """Arrays as tensors on the device, in one copy; each begins on a multiple of 16 bytes."""
        begins, at = {}, 0
        for name, array in arrays.items():
            begins[name] = at
            at += -(-max(array.nbytes, 1) // 16) * 16

        def fill(buffer: NDArray[np.uint8]) -> None:
            for name, array in arrays.items():
                begin = begins[name]
                buffer[begin : begin + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

        sent = self.send(at, fill)
        tensors = {}
        for name, array in arrays.items():
            raw = sent[begins[name] : begins[name] + array.nbytes]
            tensors[name] = raw.view(torch.from_numpy(array[:0].copy()).dtype)
        return tensors

    def send_samples(self, clips: Sequence[NDArray[np.int16]]) -> tuple[NDArray[np.int64], torch.Tensor]:
        """Pack clips, each on a multiple of 8 samples, with TILE samples behind the last: their starts, and int16."""
        lengths = np.array([len(clip) for clip in clips], np.int64)
        padded = -(-lengths // ALIGN_SAMPLES) * ALIGN_SAMPLES
        starts = np.cumsum(padded) - padded

        def fill(buffer: NDArray[np.uint8]) -> None:
            samples = buffer.view(np.int16)
            for clip, start in zip(clips, starts.tolist(), strict=True):
                samples[start : start + len(clip)] = clip

        return starts, self.send(2 * (int(padded.sum()) + TILE), fill).view(torch.int16)

    def used(self) -> None:
        """What reads the last buffer is queued on the current stream; the other one is next."""
        if self._sent:
            self._read[self._turn].record(cuda.current_stream(self._device))
            self._turn = 1 - self._turn
            self._sent = False


def _pinned(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def _there(size: int, device: torch.device) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)
