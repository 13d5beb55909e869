"""Audio files of a dataset: 16-bit scenes as FLAC or WAV, stems as 32-bit float WAV."""

from __future__ import annotations

import io
import os
import struct
from contextlib import suppress
from typing import Any, Final

import numpy as np
import soundfile
from numpy.typing import NDArray

from synthscape.errors import DatasetError
from synthscape.storage import Place

FORMATS: Final = ("flac", "wav", "none")
_BLOCK: Final = 2**20  # samples decoded at a time
#: libFLAC's level 4 of 8: 2 % larger than its best, and twice as fast
FLAC_LEVEL: Final = 0.5
_FLAC_RATES: Final = "up to 65535 Hz, and multiples of 10 up to 655350 Hz"


def check_format(audio: str, sample_rate: int) -> None:
    """Refuse what can't be written.

    Raises:
        DatasetError: the rate is not one of FLAC's, or the format is unknown.
    """
    if audio not in FORMATS:
        raise DatasetError(f"output.audio: expected {', '.join(FORMATS)}, got {audio!r}")
    fits_flac = sample_rate <= 65535 or (sample_rate <= 655350 and sample_rate % 10 == 0)
    if audio == "flac" and not fits_flac:
        raise DatasetError(f"FLAC holds rates {_FLAC_RATES}, not {sample_rate} Hz; set output.audio=wav")


def encode(pcm: NDArray[np.int16], sample_rate: int, audio: str) -> bytes:
    """One channel of 16-bit samples as a whole FLAC or WAV file; lossless.

    Files are made in memory, as libsndfile does not say when a disk is full.
    """
    level = FLAC_LEVEL if audio == "flac" else None

    def write(file: int | io.BytesIO) -> None:
        soundfile.write(
            file, pcm, sample_rate, "PCM_16", format=audio.upper(), compression_level=level, closefd=False
        )  # fmt: skip

    # To a file object libsndfile writes by way of Python, 50 times a scene: other threads would wait for each other.
    if hasattr(os, "memfd_create"):
        with (
            suppress(OSError, soundfile.SoundFileError),  # there may be a limit on the size of files
            io.FileIO(os.memfd_create("scene"), "r+") as memory,
        ):
            write(memory.fileno())
            memory.seek(0)
            encoded: bytes = memory.read()
            memory.write(b"\0")  # refused where libsndfile's last bytes were, of which it says nothing
            return encoded
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def encode_float(samples: NDArray[np.float32], sample_rate: int) -> bytes:
    """One channel as a 32-bit float WAV file.

    Written here because libsndfile puts the time of day into float WAV files (a PEAK chunk), and the same stem must
    give the same file.
    """
    data = np.ascontiguousarray(samples, dtype="<f4").tobytes()
    ieee_float, channels, width = 3, 1, 4
    form = struct.pack("<HHIIHHH", ieee_float, channels, sample_rate, sample_rate * width, width, 8 * width, 0)
    chunks = b"".join(
        name + struct.pack("<I", len(content)) + content
        for name, content in ((b"fmt ", form), (b"fact", struct.pack("<I", len(samples))), (b"data", data))
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def decode(content: bytes, dtype: str) -> NDArray[Any]:
    """Samples of an encoded file, [n_samples]; as many as there are, whatever its header says.

    Raises:
        DatasetError: it is none, or damaged.
    """
    blocks = []
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            while len(block := file.read(_BLOCK, dtype)):
                blocks.append(block)
    except soundfile.SoundFileError as error:
        raise DatasetError(str(error)) from None
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype)


def read_float(place: Place, name: str) -> NDArray[np.float32]:
    """Samples of a stem, float32 [n_samples]; raises DatasetError if it is missing or damaged."""
    try:
        return decode(place.read(name), "float32")
    except (DatasetError, OSError) as error:
        state = "is missing" if isinstance(error, FileNotFoundError) else f"can't be read ({error})"
        raise DatasetError(f"{place}: {name} {state}; render the dataset again: what is missing is made anew") from None
