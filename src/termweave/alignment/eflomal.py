"""Alignment with eflomal, if the user installed it: it is under the GPL, so Termweave neither ships nor requires it."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from termweave.alignment.aligner import check_words
from termweave.alignment.links import LINK
from termweave.alignment.pharaoh import store_pharaoh
from termweave.alignment.symmetrisation import symmetrise
from termweave.errors import DataError
from termweave.progress import Advance
from termweave.storage import RaggedArray, RaggedWriter

# eflomal refuses longer sentences; words beyond get no link.
_MAX_WORDS = 1023
_BATCH = 50_000


def align_with_eflomal(
    source: RaggedArray,
    target: RaggedArray,
    output: Path,
    *,
    source_words: int,
    target_words: int,
    identical: npt.NDArray[np.integer] | None = None,
    threads: int = 0,
    advance: Advance | None = None,
) -> None:
    """The contract of `align_words`; eflomal sees numbers only, so `identical` has no effect on it.

    `threads` has none either: eflomal runs its three samplers in parallel as OMP_NUM_THREADS allows. `advance` is
    called ALIGN_STEPS times in all, as by `align_words`, though most of them only at the end.
    """
    from termweave.alignment.aligner import ALIGN_STEPS

    check_words(source, target, source_words, target_words, identical)
    eflomal = _import_eflomal()
    with tempfile.TemporaryDirectory(dir=_existing(output.parent), prefix=".eflomal.") as name:
        folder = Path(name)
        forward, backward = folder / "forward", folder / "backward"
        try:
            eflomal.Aligner().align(
                _lines(source), _lines(target), links_filename_fwd=str(forward), links_filename_rev=str(backward)
            )
        except Exception as error:  # a failed binary surfaces as whatever its wrapper happens to raise
            raise DataError(f"eflomal failed: {error}; the built-in aligner needs no outside program") from error
        _symmetrise_files(forward, backward, source, target, output, folder)
    if advance:
        advance(ALIGN_STEPS)


def _import_eflomal() -> Any:
    try:
        return importlib.import_module("eflomal")
    except ImportError:
        raise DataError(
            'eflomal is not installed; `pip install eflomal` (it is under the GPL), or use the method "builtin"'
        ) from None


def _existing(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _lines(words: RaggedArray) -> Iterator[str]:
    for row in range(len(words)):
        yield " ".join(map(str, words[row][:_MAX_WORDS].tolist())) + "\n"


def _symmetrise_files(
    forward_path: Path, backward_path: Path, source: RaggedArray, target: RaggedArray, output: Path, folder: Path
) -> None:
    lengths: dict[str, Any] = {"source_lengths": source.lengths, "target_lengths": target.lengths}
    forward_links = store_pharaoh(forward_path, folder / "forward.links", **lengths)
    backward_links = store_pharaoh(backward_path, folder / "backward.links", **lengths)
    with RaggedWriter(output, LINK) as writer:
        for begin in range(0, len(source), _BATCH):
            end = min(begin + _BATCH, len(source))
            source_offsets = np.asarray(source.offsets[begin : end + 1])
            target_offsets = np.asarray(target.offsets[begin : end + 1])
            forward = _origins(forward_links, begin, end, target_offsets, "target", "source")
            backward = _origins(backward_links, begin, end, source_offsets, "source", "target")
            writer.extend(*symmetrise(forward, backward, source_offsets, target_offsets))


def _origins(
    links: RaggedArray, begin: int, end: int, offsets: npt.NDArray[np.int64], generated: str, origin: str
) -> npt.NDArray[np.int32]:
    """For each word of one side, end to end, the position it is linked to, or -1."""
    origins = np.full(int(offsets[-1] - offsets[0]), -1, dtype=np.int32)
    rows = np.asarray(links.values[links.offsets[begin] : links.offsets[end]])
    counts = np.diff(links.offsets[begin : end + 1])
    places = np.repeat(offsets[:-1] - offsets[0], counts) + rows[generated]
    origins[places] = rows[origin]
    return origins
