"""MarianMT checkpoints, as Hugging Face keeps them, into model folders: the command `termweave import marian`.

Marian's Transformer is ours in other words. What it has besides (a bias on the logits, other activations, embeddings
of its own for the source) are settings of the model; what we do not have is refused here, by name.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from termweave.config import ModelConfig
from termweave.errors import CheckpointError, ConfigError
from termweave.model.checkpoint import TOKENIZER, put_weights, save_checkpoint
from termweave.model.layers import sinusoidal_positions
from termweave.model.transformer import Transformer
from termweave.text.marian_vocabulary import SOURCE, TABLE, TARGET, UNKNOWN, MarianVocabulary, Roles, is_tag

CONFIG, TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"
MOST_PIECES = 2**16  # prepared corpora keep ids in two bytes
ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
SOURCE_EMBEDDING, TARGET_EMBEDDING = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
BIAS = "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def import_marian(
    folder: Path, output: Path, directions: Sequence[str], tags: Mapping[str, str] | None = None
) -> ModelConfig:
    """Write `output`, a model folder ready to translate and to start stage 2 from; returns its model settings.

    tags: target language → the language code the model knows it by, where they differ; "fr" → "fra" for >>fra<<.
    """
    _require_directions(directions)
    if output.exists():
        raise ConfigError(f"{output} exists already; remove it, or name another folder")
    settings = _read_table(folder / CONFIG)
    _require_supported(folder, settings)
    vocabulary = _read_vocabulary(folder, settings, directions, tags or {})
    weights = _read_weights(folder)
    config = _model_config(folder, settings, weights)
    model = Transformer(config, vocabulary.size, vocabulary.pad)
    put_weights(model, _rename(folder, weights, config), folder)
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer = Path(temporary) / TOKENIZER
        vocabulary.save(tokenizer)
        save_checkpoint(output, model.state_dict(), config, directions, tokenizer)
    return config


def stage2_settings(output: Path, config: ModelConfig) -> str:
    """What the configuration of stage 2 must say to start from an imported model, as TOML."""
    plain = ModelConfig(attention=config.attention, output=config.output)  # stage 2 switches constraints on
    given = ((entry.name, getattr(config, entry.name), getattr(plain, entry.name)) for entry in fields(ModelConfig))
    model = [f"{name} = {json.dumps(value)}" for name, value, default in given if value != default]
    start = f"start_from = {json.dumps(str(output))}"
    return "\n".join(
        ["[subwords]", f"model = {json.dumps(str(output / TOKENIZER))}", "", "[training]", start, "", "[model]", *model]
    )


def _require_directions(directions: Sequence[str]) -> None:
    pairs = [direction.split("-") for direction in directions]
    for direction, pair in zip(directions, pairs, strict=True):
        if len(pair) != 2 or not all(pair):
            raise ConfigError(f"--direction {direction}: write it as de-en, source language first")
    both = {pair[0] for pair in pairs} & {pair[1] for pair in pairs}
    if both:
        raise ConfigError(
            f"--direction: {', '.join(sorted(both))} cannot be source and target of one imported model, because each "
            "side has its own SentencePiece model; import it once for each direction"
        )


def _read_table(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} is no MarianMT checkpoint: it has no {path.name}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}; fetch the checkpoint again") from None
    if not isinstance(table, dict):
        raise CheckpointError(f"{path} is damaged: expected an object; fetch the checkpoint again")
    return table


def _require_supported(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuse what would load and then translate badly."""
    if settings.get("model_type") != "marian":
        kind = settings.get("model_type")
        raise CheckpointError(f"{folder} is no MarianMT checkpoint: {CONFIG} says model_type = {kind!r}")
    refused = {
        "heads that differ between encoder and decoder": _differ(settings, "attention_heads"),
        "feed-forward blocks that differ between encoder and decoder": _differ(settings, "ffn_dim"),
        "layer normalisation before the sub-layers": settings.get("normalize_before"),
        "normalised embeddings": settings.get("normalize_embedding"),
        "a last layer normalisation": settings.get("add_final_layer_norm"),
        f"the activation {settings.get('activation_function')!r}": settings.get("activation_function")
        not in ACTIVATIONS,
        "a vocabulary for each side": settings.get("decoder_vocab_size", settings.get("vocab_size"))
        not in (None, settings.get("vocab_size")),
    }
    if (folder / TOKENIZER_CONFIG).exists():
        separate = _read_table(folder / TOKENIZER_CONFIG).get("separate_vocabs")
        refused["a vocabulary for each side"] = refused["a vocabulary for each side"] or separate
    found = [what for what, present in refused.items() if present]
    if found:
        raise CheckpointError(f"{folder} has {' and '.join(found)}, which cannot be imported")


def _differ(settings: Mapping[str, Any], name: str) -> bool:
    return bool(settings.get(f"encoder_{name}") != settings.get(f"decoder_{name}"))


def _read_vocabulary(
    folder: Path, settings: Mapping[str, Any], directions: Sequence[str], tags: Mapping[str, str]
) -> MarianVocabulary:
    table = _read_table(folder / TABLE)
    if not all(isinstance(index, int) for index in table.values()) or UNKNOWN not in table:
        raise CheckpointError(f"{folder / TABLE} must give each piece its id, {UNKNOWN} among them")
    if len(table) != settings.get("vocab_size") or len(table) > MOST_PIECES:
        raise CheckpointError(
            f"{folder / TABLE} has {len(table)} pieces and the model {settings.get('vocab_size')}; "
            f"they must be the same number, and at most {MOST_PIECES}"
        )
    pairs = [direction.split("-") for direction in directions]
    try:
        roles = Roles(
            pad=_id(settings, "pad_token_id", table),
            bos=_id(settings, "decoder_start_token_id", table),
            eos=_id(settings, "eos_token_id", table),
            source=tuple(dict.fromkeys(source for source, _ in pairs)),
            target=tuple(dict.fromkeys(target for _, target in pairs)),
            tags=_find_tags(table, [target for _, target in pairs], tags),
        )
        models = [(folder / name).read_bytes() for name in (SOURCE, TARGET)]
        return MarianVocabulary.build(models[0], models[1], table, roles)
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise CheckpointError(f"{folder} is no MarianMT checkpoint: it has no {missing}") from None
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(f"{folder}: the vocabulary cannot be used: {error}") from None


def _id(settings: Mapping[str, Any], name: str, table: Mapping[str, int]) -> int:
    index = settings.get(name)
    if not isinstance(index, int) or not 0 <= index < len(table):
        raise ValueError(f"{CONFIG} has {name} = {index!r}, which is none of its {len(table)} ids")
    return index


def _find_tags(table: Mapping[str, int], languages: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The tag of each target language, if the model knows tags at all."""
    known = sorted(piece for piece in table if is_tag(piece))
    if not known:
        if given or len(set(languages)) > 1:
            raise ConfigError("this model has no language tags: it translates into one language, without --tag")
        return {}
    found = {language: f">>{given.get(language, language)}<<" for language in languages}
    for language, piece in found.items():
        if piece not in known:
            some = ", ".join(tag.strip("<>") for tag in known[:40])
            raise ConfigError(
                f"this model translates into several languages, but has no tag {piece}; say which one is meant with "
                f"--tag {language}=…: {some}{' and more' if len(known) > 40 else ''}"
            )
    return found


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Safetensors, or else a pickle, of which torch reads tensors and nothing that could be executed."""
    path = folder / SAFE if (folder / SAFE).exists() else folder / PICKLED
    try:
        weights = load_file(path) if path.name == SAFE else torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no weights: neither {SAFE} nor {PICKLED}") from None
    except (OSError, SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(weights, dict) or not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise CheckpointError(f"{path} must hold weights by name and nothing else")
    return {name: tensor.float() for name, tensor in weights.items()}


def _model_config(folder: Path, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ModelConfig:
    try:
        return ModelConfig(
            dimension=settings["d_model"],
            heads=settings["encoder_attention_heads"],
            encoder_layers=settings["encoder_layers"],
            decoder_layers=settings["decoder_layers"],
            feed_forward=settings["encoder_ffn_dim"],
            dropout=settings.get("dropout", 0.1),
            norm="post",
            attention=False,
            output=False,
            activation=ACTIVATIONS[settings["activation_function"]],  # type: ignore[arg-type]
            scale_embedding=bool(settings.get("scale_embedding", False)),
            source_embedding=not settings.get("share_encoder_decoder_embeddings", True),
            vocabulary_bias=BIAS in weights and bool(weights[BIAS].any()),
        )
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG} is damaged: {error!r}; fetch the checkpoint again") from None


def _rename(folder: Path, weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Marian's weights under our names. A name that is left over would be a part of the model we do not know."""
    left = dict(weights)
    renamed = {}
    try:
        names = (TARGET_EMBEDDING,) if config.source_embedding else (SHARED, SOURCE_EMBEDDING, TARGET_EMBEDDING)
        renamed["embedding"] = _take_tied(left, (*names, OUTPUT))
        if config.source_embedding:
            renamed["source_embedding"] = left.pop(SOURCE_EMBEDDING)
        bias = left.pop(BIAS, None)
        if config.vocabulary_bias and bias is not None:
            renamed["vocabulary_bias"] = bias.flatten()
        for name in POSITIONS:
            _require_sinusoidal(left.pop(name, None), config)
        for ours, theirs in _layer_names(config):
            for kind in ("weight", "bias"):
                renamed[f"{ours}.{kind}"] = torch.cat([left.pop(f"{name}.{kind}") for name in theirs])
    except KeyError as error:
        raise CheckpointError(f"{folder}: the weights lack {error.args[0]}; fetch the checkpoint again") from None
    except ValueError as error:
        raise CheckpointError(f"{folder} cannot be imported: {error}") from None
    if left:
        raise CheckpointError(
            f"{folder} has weights that are no part of a MarianMT model: {', '.join(sorted(left)[:3])}"
        )
    return renamed


def _take_tied(weights: dict[str, Tensor], names: Sequence[str]) -> Tensor:
    """One matrix that files may hold under several names, or under any of them."""
    found = [(name, weights.pop(name)) for name in names if name in weights]
    if not found:
        raise KeyError(names[0])
    for name, matrix in found[1:]:
        if not torch.equal(matrix, found[0][1]):
            raise ValueError(f"{name} differs from {found[0][0]}; our output layer always shares its embeddings")
    return found[0][1]


def _require_sinusoidal(stored: Tensor | None, config: ModelConfig) -> None:
    if stored is None:
        return
    if not torch.allclose(stored, sinusoidal_positions(len(stored), config.dimension), atol=1e-3):
        raise ValueError("its positions are learned, ours are sines and cosines")


def _layer_names(config: ModelConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name of each module inside the layers, and what Marian calls it, or its parts from top to bottom."""
    sides = (
        ("encoder", config.encoder_layers, {"attention": "self_attn"}),
        ("decoder", config.decoder_layers, {"self_attention": "self_attn", "cross_attention": "encoder_attn"}),
    )
    for side, layers, attentions in sides:
        for layer in range(layers):
            ours, theirs = f"{side}.{layer}", f"model.{side}.layers.{layer}"
            for name, other in attentions.items():
                parts = tuple(f"{theirs}.{other}.{part}_proj" for part in "qkv")
                yield f"{ours}.{name}.input", parts
                yield f"{ours}.{name}.output", (f"{theirs}.{other}.out_proj",)
                yield f"{ours}.{name}_residual.norm", (f"{theirs}.{other}_layer_norm",)
            yield f"{ours}.feed_forward.inner", (f"{theirs}.fc1",)
            yield f"{ours}.feed_forward.outer", (f"{theirs}.fc2",)
            yield f"{ours}.feed_forward_residual.norm", (f"{theirs}.final_layer_norm",)
