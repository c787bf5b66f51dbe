"""Which files are the shards of a corpus, and where their translations go."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from termweave.documents.files import format_of
from termweave.errors import ConfigError, DataError

COMPRESSED = (".gz", ".xz", ".zst")


@dataclass(frozen=True)
class Shard:
    """An input file, and the name of its translation within the output folder."""

    source: Path
    name: str

    @property
    def kind(self) -> str:
        """jsonl, parquet or txt: everything else is text, for corpora have names such as train.de."""
        suffix = plain_name(self.source).suffix.lower()
        return suffix[1:] if suffix in (".jsonl", ".parquet") else "txt"


def find_shards(inputs: Iterable[Path], output: Path, pairs: bool = False) -> list[Shard]:
    """Files, all files of folders, and what patterns match; each once. Folders keep their layout in the output.

    pairs: the translations are tables of source and translation, and named so.
    """
    found: dict[str, Shard] = {}
    for path in inputs:
        for source, name in _files(path, output):
            shard = Shard(source.resolve(), _as_table(name) if pairs else name)
            _require_text(shard.source)
            other = found.setdefault(shard.name, shard)
            if other.source != shard.source:
                raise ConfigError(
                    f"{other.source} and {source} would both become {shard.name} in {output}; "
                    "name the folder above them instead, which keeps its layout, or rename one"
                )
            if (output / shard.name).resolve() == shard.source:
                raise ConfigError(f"{source} would be overwritten by its own translation; name another --output")
    if not found:
        raise DataError(
            f"no file to translate in {', '.join(map(str, inputs)) or 'nothing'}; name files or folders, and an "
            "--output that they do not lie in"
        )
    _require_places(found, output)
    return list(found.values())


def _require_places(found: dict[str, Shard], output: Path) -> None:
    """No file may be named as a folder of another."""
    for shard in found.values():
        for folder in Path(shard.name).parents:
            if (other := found.get(folder.as_posix())) is not None:
                raise ConfigError(
                    f"{other.source} would become a file in {output}, where {shard.source} needs a folder of the same "
                    "name; name the folder above them instead, or rename one"
                )


def _files(path: Path, output: Path) -> Iterator[tuple[Path, str]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            relative = file.relative_to(path)
            hidden = any(part.startswith(".") for part in relative.parts)
            if file.is_file() and not hidden and not file.resolve().is_relative_to(output.resolve()):
                yield file, relative.as_posix()
    elif path.is_file():
        yield path, path.name
    elif path.exists():
        raise DataError(f"{path} is a pipe or a device; shards are files that can be read more than once")
    else:
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 Path.glob takes no absolute pattern
        matches = [Path(name) for name in names if Path(name).is_file()]
        if not matches:
            raise DataError(f"{path}: no such file or folder, and no file whose name fits it as a pattern")
        for match in matches:
            yield match, match.name


def plain_name(path: Path) -> Path:
    """Without the suffix of the compression."""
    return path.with_suffix("") if path.suffix in COMPRESSED else path


def _as_table(name: str) -> str:
    path = Path(name)
    packed = path.suffix if path.suffix in COMPRESSED else ""
    return f"{plain_name(path).as_posix()}.tsv{packed}"


def _require_text(path: Path) -> None:
    try:
        kind = format_of(plain_name(path))
    except ConfigError:  # no document
        return
    if kind != "txt":
        raise ConfigError(
            f"{path}: with --shards every line is a sentence, so files of the format {kind} cannot be shards; "
            "translate them without --shards"
        )
