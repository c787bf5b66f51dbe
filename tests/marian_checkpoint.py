"""A small MarianMT checkpoint with random weights, in the files and under the names Hugging Face uses."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

GERMAN = [
    f"{who} {what} {thing} ({where}, {number} ...)."
    for who, what, thing, where, number in itertools.product(
        ("der alte Müller", "die Lehrerin", "ein Kind"),
        ("verkauft", "sieht", "baut"),
        ("das Haus", "den Fluss", "Mehl"),
        ("im Dorf", "am See"),
        ("12", "1980"),
    )
]
ENGLISH = [
    f"{who} {what} {thing} ({where}, {number} ...)."
    for who, what, thing, where, number in itertools.product(
        ("the old miller", "the teacher", "a child"),
        ("sells", "sees", "builds"),
        ("the house", "the river", "flour"),
        ("in the village", "by the lake"),
        ("12", "1980"),
    )
]


def train_pieces(text: Iterable[str], size: int) -> bytes:
    """A unigram model with SentencePiece's own normalisation, as those of OPUS-MT are."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=file,
        vocab_size=size,
        hard_vocab_limit=False,
        model_type="unigram",
        eos_id=0,
        unk_id=1,
        bos_id=-1,
        minloglevel=2,
    )
    return file.getvalue()


def make_table(models: Sequence[bytes], tags: Sequence[str] = ()) -> dict[str, int]:
    """Piece → id: end and unknown first, padding last, the pieces of both models between them."""
    pieces = ["</s>", "<unk>", *(f">>{tag}<<" for tag in tags)]
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces += [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    return {piece: index for index, piece in enumerate([*dict.fromkeys(pieces), "<pad>"])}


def make_settings(vocabulary: int, **changes: Any) -> dict[str, Any]:
    """`config.json`."""
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": vocabulary,
        "decoder_vocab_size": vocabulary,
        "d_model": 16,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "activation_function": "swish",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "max_position_embeddings": 128,
        "dropout": 0.1,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "pad_token_id": vocabulary - 1,
        "decoder_start_token_id": vocabulary - 1,
        "bad_words_ids": [[vocabulary - 1]],
        **changes,
    }


def make_weights(settings: dict[str, Any], seed: int) -> dict[str, Tensor]:
    """Random weights; the end mark is likely, or outputs would never end."""
    generator = torch.Generator().manual_seed(seed)
    dimension, inner = settings["d_model"], settings["encoder_ffn_dim"]

    def normal(*shape: int, scale: float) -> Tensor:
        return torch.randn(shape, generator=generator) * scale

    weights = {"final_logits_bias": normal(1, settings["vocab_size"], scale=0.5)}
    weights["final_logits_bias"][0, settings["eos_token_id"]] = 4.0
    embeddings = ["model.shared"]
    if not settings["share_encoder_decoder_embeddings"]:
        embeddings = ["model.encoder.embed_tokens", "model.decoder.embed_tokens"]
    for name in embeddings:
        weights[f"{name}.weight"] = normal(settings["vocab_size"], dimension, scale=0.25)
    for side, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        for layer in range(settings[f"{side}_layers"]):
            name = f"model.{side}.layers.{layer}"
            shapes = {
                f"{name}.{a}.{part}_proj": (dimension, dimension) for a in attentions for part in ("q", "k", "v", "out")
            }
            shapes |= {f"{name}.fc1": (inner, dimension), f"{name}.fc2": (dimension, inner)}
            for module, shape in shapes.items():
                weights[f"{module}.weight"] = normal(*shape, scale=shape[1] ** -0.5)
                weights[f"{module}.bias"] = normal(shape[0], scale=0.3)
            for norm in (*(f"{a}_layer_norm" for a in attentions), "final_layer_norm"):
                weights[f"{name}.{norm}.weight"] = 1 + normal(dimension, scale=0.3)
                weights[f"{name}.{norm}.bias"] = normal(dimension, scale=0.3)
    return weights


def write_vocabulary(folder: Path, tags: Sequence[str] = ()) -> int:
    """The files of the tokenizer; returns the number of ids."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [train_pieces(GERMAN, 90), train_pieces(ENGLISH, 80)]
    table = make_table(models, tags)
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    (folder / "vocab.json").write_text(json.dumps(table), encoding="utf-8")
    languages = {"source_lang": "de", "target_lang": "en", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(languages), encoding="utf-8")
    return len(table)


def write_checkpoint(
    folder: Path, seed: int = 0, tags: Sequence[str] = (), pickled: bool = False, **changes: Any
) -> Path:
    settings = make_settings(write_vocabulary(folder, tags), **changes)
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    weights = make_weights(settings, seed)
    if pickled:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
