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
    digest.update(f"{len(array)};".encode())
    digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    kind = array.type
    if pa.types.is_struct(kind):
        for part in array.flatten():
            _update(digest, part)
    elif pa.types.is_list(kind):
        digest.update(pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype("<i4").tobytes())
        _update(digest, array.flatten())
    elif pa.types.is_string(kind):
        digest.update(pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype("<i4").tobytes())
        digest.update("".join(filter(None, array.to_pylist())).encode())
    elif pa.types.is_boolean(kind):
        digest.update(array.fill_null(False).to_numpy(zero_copy_only=False).tobytes())
    else:
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
