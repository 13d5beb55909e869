"""Frame targets on a GPU (Triton): the counts of ``frames.count_frames``, gathered tile by tile."""

import triton
import triton.language as tl

FRAMES = 32  # frames x classes of a tile
CLASSES = 32


@triton.jit(do_not_specialize=["tiles", "blocks", "n_frames", "n_classes"])
def count_frames(
    class_id, first, last, tile_offsets, tile_events, tiles, blocks, n_frames, n_classes, out, FRAMES: tl.constexpr,
    CLASSES: tl.constexpr,
):  # fmt: skip
    """How many events of each class are active in each frame, walking the tile's own list of events.

    Args:
        class_id, first, last: int32 [e]: event e counts in frames first .. last - 1.
        tile_offsets, tile_events: int32, lists of the events that touch FRAMES frames of a scene (``tiles.py``).
        tiles, blocks: how many times FRAMES and CLASSES go into the output, rounded up.
        out: int32 [s, n_frames, n_classes].
    """
    pid = tl.program_id(0)
    block = pid % blocks
    tile = pid // blocks
    scene = tile // tiles
    frame = (tile - scene * tiles) * FRAMES + tl.arange(0, FRAMES)
    name = block * CLASSES + tl.arange(0, CLASSES)
    count = tl.zeros((FRAMES, CLASSES), tl.int32)
    for k in tl.range(tl.load(tile_offsets + tile), tl.load(tile_offsets + tile + 1)):
        e = tl.load(tile_events + k)
        active = (frame >= tl.load(first + e)) & (frame < tl.load(last + e))
        count += (active[:, None] & (name == tl.load(class_id + e))[None, :]).to(tl.int32)
    at = (scene.to(tl.int64) * n_frames + frame)[:, None] * n_classes + name[None, :]
    tl.store(out + at, count, mask=(frame < n_frames)[:, None] & (name < n_classes)[None, :])
