"""Configuration: frozen dataclasses read from a commented TOML file.

One dataclass per concern, one sentence per field. Unknown keys are refused with the nearest known one; wrong types
and impossible values name the key. Paths are relative to the folder the command runs in.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from termweave.errors import ConfigError

Settings = TypeVar("Settings")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True)
class CorpusConfig:
    """One piece of parallel text: two line-aligned files, or one TMX file."""

    source: str = ""  # text file of the source language, plain, .gz or .xz
    target: str = ""  # text file of the target language, line by line the translation of `source`
    tmx: str = ""  # a TMX file, instead of `source` and `target`
    links: str = ""  # Pharaoh word links of this text, if you bring your own; words then are white-space separated
    languages: str = ""  # "de-en": language of `source`, language of `target`; default: the first direction
    repeat: int = 1  # how often each pair stands in an epoch, so that small text counts beside large

    def __post_init__(self) -> None:
        _require(
            bool(self.tmx) != bool(self.source and self.target) and not (self.tmx and (self.source or self.target)),
            "corpora: give either `source` and `target` or `tmx`, not both and not neither",
        )
        _require(not (self.tmx and self.links), "corpora: `links` count the words of text files, not of `tmx`")
        _require(1 <= self.repeat <= 100, "corpora: `repeat` must lie between 1 and 100")


@dataclass(frozen=True)
class TestSetConfig:
    """A test set: its sentences are removed from the training text."""

    __test__ = False  # the name starts with "Test"; pytest must not collect it

    source: str
    target: str


@dataclass(frozen=True)
class DataConfig:
    """What is read and how it is cleaned."""

    folder: str  # where the prepared corpus is written
    directions: tuple[str, ...]  # "de-en" translates German into English; several make one tagged model
    max_tokens: int = 200  # longer sentences (in subwords, either side) are left out
    max_ratio: float = 3.0  # pairs whose lengths in characters differ by more than this factor are left out
    max_characters: int = 2000  # longer lines are left out before anything is computed on them
    remove_duplicates: bool = True  # keep one copy of a pair that stands several times
    workers: int = 0  # processes for preparation; 0: one per core

    def __post_init__(self) -> None:
        _require(bool(self.directions), 'data.directions: name at least one direction, such as "de-en"')
        for direction in self.directions:
            parts = direction.split("-")
            _require(
                len(parts) == 2 and all(parts) and parts[0] != parts[1],
                f'data.directions: {direction!r} is not of the form "de-en"',
            )
        _require(len(set(self.directions)) == len(self.directions), "data.directions: a direction stands twice")
        _require(bool(self.folder), "data.folder: name a folder")
        _require(2 <= self.max_tokens <= 1000, "data.max_tokens: must lie between 2 and 1000")
        _require(self.max_characters >= 1, "data.max_characters: must be at least 1")
        _require(self.workers >= 0, "data.workers: must not be negative; 0 means one per core")
        _require(self.max_ratio > 1, "data.max_ratio: must be above 1")


@dataclass(frozen=True)
class SubwordConfig:
    """The SentencePiece vocabulary, joint over all languages."""

    size: int = 32000  # number of pieces, byte pieces and tags included
    model: str = ""  # an existing vocabulary, of Termweave or of an imported model, instead of training one
    sample: int = 1_000_000  # sentences (both sides counted) the vocabulary is learned from, drawn at random
    character_coverage: float = 0.9995  # share of characters with a piece of their own; the rest are spelled in bytes

    def __post_init__(self) -> None:
        _require(300 <= self.size <= 65535, "subwords.size: must lie between 300 and 65535")
        _require(self.sample >= 1, "subwords.sample: must be at least 1")
        _require(0.9 <= self.character_coverage <= 1, "subwords.character_coverage: must lie between 0.9 and 1")


@dataclass(frozen=True)
class AlignmentConfig:
    """Word alignment, from which training constraints are extracted."""

    method: Literal["builtin", "eflomal"] = "builtin"  # eflomal must be installed by you; it is under the GPL


@dataclass(frozen=True)
class PhraseConfig:
    """Which phrase pairs may become constraints."""

    max_words: int = 3  # longest source phrase, in words

    def __post_init__(self) -> None:
        _require(1 <= self.max_words <= 8, "phrases.max_words: must lie between 1 and 8")


@dataclass(frozen=True)
class SamplingConfig:
    """How constraints are drawn for training sentences, anew every epoch."""

    max_constraints: int = 3  # at most so many constraints in a sentence, their number drawn uniformly
    max_words: int = 3  # longest source phrase, the length drawn uniformly
    empty_share: float = 0.1  # share of sentences left without constraints, so that plain translation stays good
    code_switch: float = 0.0  # probability that a target constraint is replaced by its source, reference included
    max_tokens: int = 32  # at most so many constraint tokens in a sentence, on each side

    def __post_init__(self) -> None:
        _require(1 <= self.max_constraints <= 15, "sampling.max_constraints: must lie between 1 and 15")
        _require(self.max_words >= 1, "sampling.max_words: must be at least 1")
        _require(self.max_tokens >= 1, "sampling.max_tokens: must be at least 1")
        _require(0 <= self.empty_share <= 1, "sampling.empty_share: must lie between 0 and 1")
        _require(0 <= self.code_switch <= 1, "sampling.code_switch: must lie between 0 and 1")


@dataclass(frozen=True)
class ModelConfig:
    """The Transformer and how constraints enter it. The defaults are the paper's."""

    dimension: int = 512  # d, the width of every hidden state
    heads: int = 8  # attention heads
    encoder_layers: int = 6
    decoder_layers: int = 6
    feed_forward: int = 2048  # inner width of the feed-forward blocks
    dropout: float = 0.1
    norm: Literal["pre", "post"] = "pre"  # where layer normalisation stands; post is the paper's, pre learns faster
    attention: bool = True  # constraints join the attention as extra keys and values; `pointer`: replace their source
    output: bool = True  # constraints reach the output layer
    variant: Literal["copy", "paper", "released", "pointer"] = "copy"  # which output layer and form of the extra keys
    activation: Literal["relu", "swish", "gelu"] = "relu"  # inside the feed-forward blocks
    scale_embedding: bool = True  # embeddings are multiplied by the root of `dimension`
    source_embedding: bool = False  # the source has embeddings of its own, instead of sharing the target's
    vocabulary_bias: bool = False  # every token has a number of its own that is added to its logit
    alignment_layer: int = 0  # decoder layer an alignment module looks at, for the search `cdalign`; 0: there is none

    @property
    def vectors(self) -> bool:
        """Do constraints join the attention as extra keys and values?"""
        return self.attention and self.variant != "pointer"

    @property
    def layers(self) -> int:
        return self.encoder_layers + self.decoder_layers

    @property
    def replaces_source(self) -> bool:
        """Do constraints take the place of their sources in the input?"""
        return self.attention and self.variant == "pointer"

    def __post_init__(self) -> None:
        _require(self.heads >= 1, "model.heads: must be at least 1")
        _require(
            self.dimension > 0 and self.dimension % (2 * self.heads) == 0,
            "model.dimension: must be a multiple of 2 × model.heads",
        )
        _require(self.feed_forward >= 1, "model.feed_forward: must be at least 1")
        _require(0 <= self.dropout < 1, "model.dropout: must lie in [0, 1)")
        _require(
            self.encoder_layers > 0 and self.decoder_layers > 0,
            "model: needs at least one layer on each side",
        )
        _require(
            self.variant != "pointer" or self.attention or not self.output,
            "model.attention: `pointer` learns of constraints from its source alone; set it to true, or model.output "
            "to false as well for a vanilla model",
        )
        _require(
            not (self.source_embedding and self.replaces_source),
            "model.source_embedding: `pointer` reads targets in its source, with their embeddings; set it to false",
        )
        _require(
            0 <= self.alignment_layer <= self.decoder_layers,
            "model.alignment_layer: must lie between 1 and model.decoder_layers; 0 means no alignment module",
        )
        _require(
            not (self.alignment_layer and self.replaces_source),
            "model.alignment_layer: `cdalign` looks for the sources that `pointer` replaces; set it to 0",
        )


@dataclass(frozen=True)
class StageConfig:
    """One stage of training, with its own optimiser and schedule."""

    steps: int  # optimiser steps
    learning_rate: float = 7e-4  # highest rate, reached at the end of the warm-up
    warmup: int = 4000  # steps of linear warm-up; after it the rate falls with the inverse square root
    cooldown: float = 0.3  # last share of the steps, over which the rate falls linearly to zero as well
    alpha: float = 1.0  # weight of target tokens inside constraints
    beta: float = 1.0  # weight of all other target tokens

    def __post_init__(self) -> None:
        _require(self.steps >= 1, "steps: must be at least 1")
        _require(self.learning_rate > 0, "learning_rate: must be above 0")
        _require(self.warmup >= 1, "warmup: must be at least 1")
        _require(0 <= self.cooldown <= 1, "cooldown: must lie between 0 and 1")
        _require(self.alpha > 0 and self.beta > 0, "alpha, beta: must be above 0")


@dataclass(frozen=True)
class TrainingConfig:
    """The training loop."""

    folder: str  # where checkpoints and logs are written
    seed: int = 1
    batch_tokens: int = 32768  # tokens (of the longer side, padding included) in one micro-batch
    accumulation: int = 1  # micro-batches summed into one step, in all processes together
    label_smoothing: float = 0.1
    max_gradient_norm: float = 0.0  # gradients longer than this are scaled down; 0: never
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 where the GPU has it
    compile: Literal["auto", "always", "never"] = "auto"  # torch.compile; auto: on a GPU
    log_every: int = 100  # steps between two lines of the log
    checkpoint_every: int = 1000  # steps between two checkpoints
    keep: int = 5  # checkpoints kept; the last ones of a stage are averaged into the stage's model
    average: int = 5  # checkpoints averaged at the end of a stage; 1: the last one alone
    start_from: str = ""  # a finished stage-1 model folder to start stage 2 from; stage 1 is then skipped
    stage1: StageConfig = field(default_factory=lambda: StageConfig(steps=100_000))
    stage2: StageConfig = field(default_factory=lambda: StageConfig(steps=10_000, learning_rate=5e-4, warmup=500))
    alignment: StageConfig = field(default_factory=lambda: StageConfig(steps=2000, learning_rate=1e-3, warmup=200))

    def __post_init__(self) -> None:
        _require(bool(self.folder), "training.folder: name a folder")
        _require(0 <= self.seed < 2**31, "training.seed: must lie between 0 and 2147483647")
        _require(self.max_gradient_norm >= 0, "training.max_gradient_norm: must not be negative; 0 means never")
        _require(self.batch_tokens >= 64, "training.batch_tokens: must be at least 64")
        _require(self.accumulation >= 1, "training.accumulation: must be at least 1")
        _require(0 <= self.label_smoothing < 1, "training.label_smoothing: must lie in [0, 1)")
        _require(
            self.keep >= self.average >= 1,
            "training.keep: must be at least training.average, and that at least 1",
        )
        _require(self.log_every >= 1, "training.log_every: must be at least 1")
        _require(self.checkpoint_every >= 1, "training.checkpoint_every: must be at least 1")


@dataclass(frozen=True)
class ValidationConfig:
    """What the model is measured on while it trains."""

    file: str = ""  # a constraint set made by `termweave constraints`; empty: no validation
    every: int = 5000  # steps between two validations
    sentences: int = 500  # at most so many sentences of the file
    beam: int = 4

    def __post_init__(self) -> None:
        _require(self.every >= 1, "validation.every: must be at least 1")
        _require(self.sentences >= 1, "validation.sentences: must be at least 1")
        _require(self.beam >= 1, "validation.beam: must be at least 1")


@dataclass(frozen=True)
class Config:
    """A whole experiment: what `termweave prepare` and `termweave train` read."""

    data: DataConfig
    training: TrainingConfig
    corpora: tuple[CorpusConfig, ...]
    test_sets: tuple[TestSetConfig, ...] = ()
    subwords: SubwordConfig = SubwordConfig()
    alignment: AlignmentConfig = AlignmentConfig()
    phrases: PhraseConfig = PhraseConfig()
    sampling: SamplingConfig = SamplingConfig()
    model: ModelConfig = ModelConfig()
    validation: ValidationConfig = ValidationConfig()

    def __post_init__(self) -> None:
        _require(bool(self.corpora), "corpora: name at least one corpus with [[corpora]]")


def load_config(path: Path, overrides: typing.Sequence[str] = ()) -> Config:
    """Read a TOML file; `overrides` such as "model.heads=4" replace single keys."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; name the configuration file itself") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    for override in overrides:
        _apply_override(tree, override)
    try:
        return from_tree(Config, tree)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _apply_override(tree: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    _require(bool(separator), f"--set {override}: write it as key=value, for example model.heads=4")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is taken as a string, so that no shell quoting is needed
    *parents, last = key.strip().split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        _require(isinstance(tree, dict), f"--set {override}: {parent} is not a table")
    tree[last] = value


def from_tree(kind: type[Settings], tree: Any, where: str = "") -> Settings:
    """Build the dataclass `kind` from plain dictionaries, lists and values."""
    _require(isinstance(tree, dict), f"{where.rstrip('.') or 'the file'}: expected a table, got {tree!r}")
    hints = typing.get_type_hints(kind)
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in tree:
        if key not in fields:
            raise ConfigError(_unknown_key(f"{where}{key}", key, list(fields)))
    for entry in fields.values():
        if entry.name not in tree and _is_required(entry):
            raise ConfigError(f"{where}{entry.name} is missing")
    values = {
        key: _convert(hints[key], _with_defaults(fields[key], value), f"{where}{key}") for key, value in tree.items()
    }
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(_located(str(error), where)) from None


def _located(message: str, where: str) -> str:
    """The message of a failed check, led by the place of the table it came from: "corpora[0].", "training.stage1."."""
    table = where.removesuffix(".").partition("[")[0]
    if table and message.startswith(f"{table}:"):
        return where.removesuffix(".") + message.removeprefix(table)
    return message if message.startswith(where) else where + message


def to_tree(settings: Any) -> dict[str, Any]:
    """The reverse of `from_tree`."""
    tree: dict[str, Any] = dataclasses.asdict(settings)
    return tree


def _with_defaults(entry: dataclasses.Field[Any], value: Any) -> Any:
    """A table given in part keeps the other defaults of its place: those of stage 2 differ from those of stage 1."""
    if isinstance(value, dict) and entry.default_factory is not dataclasses.MISSING:
        return {**to_tree(entry.default_factory()), **value}
    return value


def _is_required(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def _unknown_key(path: str, key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"; did you mean `{near[0]}`?" if near else f"; known here: {', '.join(known)}"
    return f"unknown key `{path}`{hint}"


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is tuple:
        _require(isinstance(value, list | tuple), f"{where}: expected a list, got {value!r}")
        inner = typing.get_args(hint)[0]
        return tuple(_convert(inner, item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin is Literal:
        choices = typing.get_args(hint)
        _require(value in choices, f"{where}: {value!r} is not one of {', '.join(map(repr, choices))}")
        return value
    if origin in (typing.Union, types.UnionType):
        raise TypeError(f"{where}: union types are not used in configuration")
    if dataclasses.is_dataclass(hint):
        return from_tree(typing.cast(type[Any], hint), value, f"{where}.")
    if hint is float and type(value) is int:
        return float(value)
    _require(type(value) is hint, f"{where}: expected {hint.__name__}, got {value!r}")
    return value
