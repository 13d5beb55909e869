"""Hash of what a table says, however it is stored."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def table_hash(table: pa.Table) -> str:
    """BLAKE2b-128 over names, types and values of a table, hex.

    Chunks, encodings, and what lies in memory under nulls don't matter.
    """
    digest = blake2b(digest_size=16)
    for field in table.schema:
        digest.update(f"{field.name}:{field.type};".encode())
        _update(digest, table[field.name].combine_chunks())
    return digest.hexdigest()


def _update(digest: Any, column: pa.Array | pa.ChunkedArray) -> None:
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    digest.update(f"{len(array)};".encode())
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.ones(len(array), np.bool_)
    digest.update(np.packbits(valid).tobytes())
    if pa.types.is_struct(kind):
        for part in array.flatten():
            _update(digest, part)
    elif pa.types.is_list(kind):
        digest.update(_bytes(pc.list_value_length(array)))
        _update(digest, array.flatten())
    elif pa.types.is_string(kind):
        digest.update(_bytes(pc.binary_length(array)))
        texts = array.drop_null() if array.null_count else array
        _, offsets, content = texts.buffers()
        if len(texts) and content is not None:  # else they are empty, and there may be no memory at all
            start, end = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]].tolist()
            digest.update(memoryview(content)[start:end])
    else:
        digest.update(_bytes(array))


def _bytes(array: pa.Array) -> bytes:
    """Numbers or flags, little-endian; 0 for null."""
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    values = array.to_numpy(zero_copy_only=False)
    return bytes(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
