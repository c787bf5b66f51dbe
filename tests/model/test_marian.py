"""Imported MarianMT models do what they did: against a reference of our own, and against transformers where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from marian_checkpoint import make_settings, make_weights, write_checkpoint, write_vocabulary
from marian_reference import Reference
from termweave.config import ModelConfig
from termweave.decoding.beam import Hypothesis, Marks, SearchOptions, beam_search
from termweave.decoding.translator import Translator
from termweave.errors import CheckpointError, ConfigError
from termweave.model.checkpoint import Checkpoint, load_checkpoint, load_settings, require_same_model
from termweave.model.marian import import_marian, stage2_settings
from termweave.text.words import normalise

SENTENCES = ["der alte Müller verkauft Mehl.", "ein Haus am See", "die Lehrerin baut das Haus (im Dorf, 12)."]
BEAM, LIMIT = 4, 80
# Settings, and a seed with which outputs are neither empty nor endless.
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "OPUS-MT": ({}, 0),
    "embeddings of its own for each side": ({"share_encoder_decoder_embeddings": False}, 24),
    "plain embeddings, relu": ({"scale_embedding": False, "activation_function": "relu"}, 6),
    "gelu, more layers": ({"activation_function": "gelu", "encoder_layers": 3, "decoder_layers": 2}, 39),
}
each_kind = pytest.mark.parametrize(("changes", "seed"), KINDS.values(), ids=KINDS)


def imported(folder: Path, *directions: str) -> Checkpoint:
    import_marian(folder, folder / "model", directions or ("de-en",))
    return load_checkpoint(folder / "model")


def source_ids(checkpoint: Checkpoint) -> list[list[int]]:
    return [[*checkpoint.subwords.source.encode(text), checkpoint.subwords.eos] for text in SENTENCES]


def padded(rows: list[list[int]], padding: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [padding] * (width - len(row)) for row in rows])


@torch.no_grad()
def our_logits(checkpoint: Checkpoint, source: list[list[int]], target: list[list[int]]) -> torch.Tensor:
    """All sentences in one padded batch, (batch, length, vocabulary)."""
    pad = checkpoint.subwords.pad
    encoded = checkpoint.model.encode(padded(source, pad))
    return checkpoint.model._logits(checkpoint.model.decode(padded(target, pad), encoded))


def our_outputs(checkpoint: Checkpoint, source: list[list[int]], length_penalty: float = 1.0) -> list[list[Hypothesis]]:
    subwords = checkpoint.subwords
    with torch.no_grad():
        encoded = checkpoint.model.encode(padded(source, subwords.pad))
        memory = checkpoint.model.decoder_memory(encoded)
    marks = Marks(subwords.bos, subwords.eos, (subwords.pad,))
    options = SearchOptions(BEAM, length_penalty)
    return beam_search(checkpoint.model, memory, torch.full((len(source),), LIMIT), marks, options)


def random_targets(checkpoint: Checkpoint, lengths: tuple[int, ...] = (5, 9, 1)) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    begin, size = checkpoint.subwords.bos, checkpoint.subwords.size
    return [[begin, *torch.randint(size, (length,), generator=generator).tolist()] for length in lengths]


def reference_of(folder: Path) -> Reference:
    settings = json.loads((folder / "config.json").read_text())
    return Reference(settings, load_file(folder / "model.safetensors"))


# Against the reference of our own


@each_kind
def test_logits_are_those_of_the_reference(tmp_path, changes, seed):
    checkpoint, reference = imported(write_checkpoint(tmp_path, seed, **changes)), reference_of(tmp_path)
    source, target = source_ids(checkpoint), random_targets(checkpoint)
    ours = our_logits(checkpoint, source, target)
    for row, (sentence, tokens) in enumerate(zip(source, target, strict=True)):
        expected = reference.logits(sentence, tokens).float()
        torch.testing.assert_close(ours[row, : len(tokens)], expected, atol=1e-4, rtol=0)


@each_kind
def test_beam_search_finds_what_the_reference_finds(tmp_path, changes, seed):
    checkpoint, reference = imported(write_checkpoint(tmp_path, seed, **changes)), reference_of(tmp_path)
    source = source_ids(checkpoint)
    for sentence, found in zip(source, our_outputs(checkpoint, source), strict=True):
        expected = reference.beam_search(sentence, BEAM, LIMIT)
        assert [list(hypothesis.tokens) for hypothesis in found] == [tokens for tokens, _ in expected]
        assert [hypothesis.score for hypothesis in found] == pytest.approx([score for _, score in expected], abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_the_bias_is_part_of_every_precision(tmp_path, precision):
    """Only the bias tells tokens apart where all else is zero."""
    folder = write_checkpoint(tmp_path)
    weights = load_file(folder / "model.safetensors")
    blank = {name: tensor if "bias" in name or "norm" in name else tensor * 0 for name, tensor in weights.items()}
    save_file(blank, folder / "model.safetensors")
    import_marian(folder, folder / "model", ["de-en"])
    translator = Translator.load(folder / "model", "cpu", precision)
    expected = weights["final_logits_bias"][0].log_softmax(-1)
    with torch.inference_mode():
        states = torch.ones(1, 1, 16, dtype=translator.model.embedding.dtype)
        found = translator.model.log_probabilities(states, None)
    torch.testing.assert_close(found[0, 0], expected, atol=0.05 if precision == "bfloat16" else 1e-5, rtol=0)


# Against transformers, where it is installed


def marian_models() -> tuple[Any, Any]:
    """transformers' model, and the same with our rule of when a search is done.

    The rules differ by one token. Both stop when `beam` outputs are finished and the best open one would not be among
    them: transformers divides its log P by the tokens it has, we by the tokens it would have after the end mark. So we
    stop later, if lengths count at all. Where outputs are cut off by a limit, transformers adds the end mark for free.
    """
    transformers = pytest.importorskip("transformers")

    class Patient(transformers.MarianMTModel):
        def _check_early_stop_heuristic(self, *arguments, cur_len, **others):
            return super()._check_early_stop_heuristic(*arguments, cur_len=cur_len + 1, **others)

    return transformers.MarianMTModel, Patient


@torch.no_grad()
def largest_difference(checkpoint: Checkpoint, folder: Path) -> float:
    model = marian_models()[0].from_pretrained(folder).eval()
    source, target, pad = source_ids(checkpoint), random_targets(checkpoint), checkpoint.subwords.pad
    ids = padded(source, pad)
    theirs = model(input_ids=ids, attention_mask=ids != pad, decoder_input_ids=padded(target, pad)).logits
    difference = (our_logits(checkpoint, source, target) - theirs).abs()
    return max(float(difference[row, : len(tokens)].max()) for row, tokens in enumerate(target))


def their_outputs(checkpoint: Checkpoint, model: Any, length_penalty: float) -> list[list[tuple[int, ...]]]:
    pad, end = checkpoint.subwords.pad, checkpoint.subwords.eos
    ids = padded(source_ids(checkpoint), pad)
    generated = model.generate(
        input_ids=ids,
        attention_mask=ids != pad,
        num_beams=BEAM,
        num_return_sequences=BEAM,
        length_penalty=length_penalty,
        early_stopping=False,
        max_new_tokens=LIMIT,
        bad_words_ids=[[pad]],
    ).tolist()
    rows = [tuple(row[1 : row.index(end)]) for row in generated]
    return [rows[start : start + BEAM] for start in range(0, len(rows), BEAM)]


def compare_with_transformers(checkpoint: Checkpoint, folder: Path) -> None:
    """Logits, and all outputs of the beam: by transformers' own rule of stopping where it is ours, and by ours."""
    difference = largest_difference(checkpoint, folder)
    print(f"largest difference of logits: {difference:.1e}")
    assert difference < 1e-4
    source = source_ids(checkpoint)
    for kind, length_penalty in zip(marian_models(), (0.0, 1.0), strict=True):
        ours = [[found.tokens for found in row] for row in our_outputs(checkpoint, source, length_penalty)]
        assert ours == their_outputs(checkpoint, kind.from_pretrained(folder).eval(), length_penalty)


@each_kind
def test_transformers_reads_the_same_checkpoint_alike(tmp_path, changes, seed):
    pytest.importorskip("transformers")
    compare_with_transformers(imported(write_checkpoint(tmp_path, seed, **changes)), tmp_path)


@each_kind
def test_what_transformers_wrote_is_imported(tmp_path, changes, seed):
    transformers = pytest.importorskip("transformers")
    settings = make_settings(write_vocabulary(tmp_path), **changes)
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings))
    model.load_state_dict(make_weights(settings, seed), strict=False)
    model.tie_weights()
    model.save_pretrained(tmp_path)
    compare_with_transformers(imported(tmp_path), tmp_path)


def test_texts_are_those_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    checkpoint = imported(write_checkpoint(tmp_path, KINDS["OPUS-MT"][1]))
    model = marian_models()[1].from_pretrained(tmp_path).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    texts = [*SENTENCES, "½ Haus für Žofie …", "unbekannt: ñ ß 日本", "the house"]
    assert [checkpoint.subwords.source.encode(normalise(text)) for text in texts] == [
        tokenizer(text)["input_ids"][:-1] for text in texts
    ]
    assert [checkpoint.subwords.target.encode(normalise(text)) for text in texts] == [
        tokenizer(text_target=text)["input_ids"][:-1] for text in texts
    ]
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    generated = model.generate(**batch, num_beams=BEAM, length_penalty=1.0, early_stopping=False, max_new_tokens=LIMIT)
    found = Translator(checkpoint).translate(SENTENCES, beam=BEAM)
    assert [result.text for result in found] == tokenizer.batch_decode(generated, skip_special_tokens=True)


# What is written, and what is refused


def test_a_pickle_is_read_without_executing_it(tmp_path):
    weights = imported(write_checkpoint(tmp_path / "pickled", pickled=True)).model.state_dict()
    safe = imported(write_checkpoint(tmp_path / "safe")).model.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in safe.items())

    class Executed:
        def __reduce__(self):
            return (tmp_path / "executed").write_text, ("x",)

    torch.save({"model.shared.weight": Executed()}, tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin cannot be read"):
        import_marian(tmp_path / "pickled", tmp_path / "out", ["de-en"])
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "out").exists()


def test_settings_say_what_the_model_is(tmp_path):
    config = imported(write_checkpoint(tmp_path, encoder_layers=3)).model.config
    assert config == load_settings(tmp_path / "model")[0]
    assert (config.encoder_layers, config.decoder_layers, config.norm) == (3, 1, "post")
    assert (config.activation, config.vocabulary_bias, config.source_embedding) == ("swish", True, False)
    assert not config.attention and not config.output


def test_a_bias_of_zeros_is_left_out(tmp_path):
    folder = write_checkpoint(tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"final_logits_bias": weights["final_logits_bias"] * 0}, folder / "model.safetensors")
    assert not imported(folder).model.config.vocabulary_bias


def test_stage_2_must_be_told_the_same_settings(tmp_path):
    import tomllib

    import_marian(write_checkpoint(tmp_path), tmp_path / "model", ["de-en"])
    found = tomllib.loads(stage2_settings(tmp_path / "model", load_settings(tmp_path / "model")[0]))
    assert found["training"]["start_from"] == str(tmp_path / "model")
    assert found["subwords"]["model"] == str(tmp_path / "model" / "tokenizer.model")
    require_same_model(tmp_path / "model", ModelConfig(**found["model"]))  # raises nothing
    with pytest.raises(CheckpointError, match=r'set \[model\] heads = 2, activation = "swish"$'):
        require_same_model(tmp_path / "model", ModelConfig(**{**found["model"], "activation": "relu", "heads": 4}))


def test_models_of_several_languages_want_their_tag(tmp_path):
    folder = write_checkpoint(tmp_path, tags=["fra", "en"])
    with pytest.raises(ConfigError, match=r"no tag >>fr<<.*--tag fr=…: en, fra"):
        import_marian(folder, tmp_path / "out", ["de-fr"])
    import_marian(folder, tmp_path / "out", ["de-fr", "de-en"], {"fr": "fra"})
    subwords = load_checkpoint(tmp_path / "out").subwords
    assert subwords.pieces(subwords.tags.values()) == [">>fra<<", ">>en<<"]
    import_marian(folder, tmp_path / "one", ["de-en"])
    one = Translator.load(tmp_path / "one", "cpu")
    assert one._tag(None) == subwords.tags["en"]
    assert (
        one.translate([SENTENCES[0]])[0].text
        == Translator.load(tmp_path / "out", "cpu").translate([SENTENCES[0]], direction="de-en")[0].text
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "m2m_100"}, "is no MarianMT checkpoint: config.json says model_type = 'm2m_100'"),
        ({"decoder_attention_heads": 4}, "has heads that differ between encoder and decoder"),
        ({"normalize_before": True}, "layer normalisation before the sub-layers, which cannot be imported"),
        ({"activation_function": "tanh"}, "the activation 'tanh'"),
        ({"decoder_vocab_size": 7}, "a vocabulary for each side"),
        ({"pad_token_id": 100_000}, "pad_token_id = 100000, which is none of its"),
        ({"encoder_layers": 1}, r"weights that are no part of a MarianMT model: model\.encoder\.layers\.1"),
        ({"encoder_layers": 3}, r"the weights lack model\.encoder\.layers\.2"),
        ({"share_encoder_decoder_embeddings": False}, r"the weights lack model\.decoder\.embed_tokens"),
        ({"vocab_size": 40, "decoder_vocab_size": 40}, r"vocab\.json has \d+ pieces and the model 40"),
        ({"d_model": 32}, "other sizes of"),
        ({"d_model": None}, r"config\.json is damaged"),
    ],
)
def test_what_is_not_ours_is_refused(tmp_path, changes, message):
    folder = write_checkpoint(tmp_path)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, **changes}))
    with pytest.raises(CheckpointError, match=message):
        import_marian(folder, tmp_path / "out", ["de-en"])
    assert not (tmp_path / "out").exists()


def test_weights_of_another_kind_are_refused(tmp_path):
    folder = write_checkpoint(tmp_path)
    weights = load_file(folder / "model.safetensors")
    others = {"lm_head.weight": weights["model.shared.weight"] + 1}
    save_file(weights | others, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from model\.shared\.weight"):
        import_marian(folder, tmp_path / "out", ["de-en"])
    save_file(weights | {"model.encoder.embed_positions.weight": torch.ones(128, 16)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="positions are learned"):
        import_marian(folder, tmp_path / "out", ["de-en"])


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"])
def test_missing_and_damaged_files_are_named(tmp_path, name):
    folder = write_checkpoint(tmp_path)
    (folder / name).write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match=folder.name):
        import_marian(folder, tmp_path / "out", ["de-en"])
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"no {name}|no weights"):
        import_marian(folder, tmp_path / "out", ["de-en"])


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        (["de"], "write it as de-en"),
        (["de-en", "en-de"], "cannot be source and target"),
        (["de-en", "de-fr"], "no language tags"),
    ],
)
def test_directions_are_checked(tmp_path, directions, message):
    with pytest.raises(ConfigError, match=message):
        import_marian(write_checkpoint(tmp_path), tmp_path / "out", directions)


def test_nothing_is_overwritten(tmp_path):
    folder = write_checkpoint(tmp_path)
    with pytest.raises(ConfigError, match="exists already"):
        import_marian(folder, folder, ["de-en"])
    assert (folder / "source.spm").exists()
