"""What a model is worth while it trains: BLEU and CSR of its translations, perplexity of the references."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from termweave.config import ValidationConfig
from termweave.constraints.evaluation_sets import ConstrainedSentence, read_constraint_set
from termweave.constraints.source_places import replace_sources
from termweave.data.batches import Batch, constraints_from_ids
from termweave.data.folder import ID
from termweave.data.layout import Markers, lay_out, rows_of
from termweave.decoding.translator import Translator
from termweave.errors import DataError
from termweave.evaluation.scores import evaluate
from termweave.model.checkpoint import Checkpoint
from termweave.model.transformer import POSITIONS, Transformer
from termweave.storage import RaggedArray
from termweave.text.vocabulary import Vocabulary
from termweave.text.words import normalise
from termweave.training.objective import Objective


@dataclass(frozen=True)
class Validation:
    """One measurement."""

    bleu: float
    csr: float  # phrase level, per cent
    perplexity: float  # per subword of the references, given the constraints


class Validator:
    """Measures a model on a fixed constraint set, in the model's first direction."""

    def __init__(self, config: ValidationConfig, subwords: Vocabulary, directions: tuple[str, ...]) -> None:
        self.config = config
        self.subwords = subwords
        self.directions = directions
        self.sentences = read_constraint_set(Path(config.file))[: config.sentences]
        self._check()

    def _check(self) -> None:
        """Find out now what would otherwise end a run at its first validation."""
        if not self.sentences:
            raise DataError(f"validation.file: {self.config.file} has no sentences")
        for number, row in enumerate(self.sentences, start=1):
            ids = self.subwords.source.encode(normalise(row.source)), self.subwords.target.encode(normalise(row.target))
            longest = max(map(len, ids))
            if longest > POSITIONS - 2:
                raise DataError(
                    f"validation.file: {self.config.file}, line {number} has {longest} subwords, the limit is "
                    f"{POSITIONS - 2}; remove it"
                )

    @torch.inference_mode()
    def measure(self, model: Transformer) -> Validation:
        was_training = model.training
        model.eval()
        try:
            constrained = model.config.attention or model.config.output
            constraints = [sentence.constraints if constrained else () for sentence in self.sentences]
            translator = Translator(Checkpoint(model, self.subwords, self.directions))
            outputs = translator.translate(
                [sentence.source for sentence in self.sentences],
                constraints,
                direction=self.directions[0],
                search="beam",  # what the model does by itself is what training can mend
                beam=self.config.beam,
            )
            language = self.directions[0].split("-")[1]
            scores = evaluate([output.text for output in outputs], self.sentences, language)
            return Validation(
                scores.bleu.value, scores.success.phrase_level or 0.0, self._perplexity(model, constrained)
            )
        finally:
            model.train(was_training)

    def _perplexity(self, model: Transformer, constrained: bool) -> float:
        objective = Objective(model, label_smoothing=0.0)
        total, tokens = 0.0, 0
        for start in range(0, len(self.sentences), 32):
            rows = self.sentences[start : start + 32]
            batch = self._batch(rows, constrained, model.config.replaces_source).to(model.embedding.device)
            total += float(objective(batch)[0])
            tokens += batch.tokens
        return math.exp(min(total / max(tokens, 1), 50.0))

    def _batch(self, rows: list[ConstrainedSentence], constrained: bool, replaced: bool) -> Batch:
        encoders, language = (
            (self.subwords.source.encode, self.subwords.target.encode),
            self.directions[0].split("-")[0],
        )
        given = [normalise(row.source) for row in rows]
        if replaced:
            given = [replace_sources(text, row.constraints, language) for text, row in zip(given, rows, strict=True)]
        source, target = (
            rows_of(RaggedArray.from_rows([encode(text) for text in texts], ID))
            for encode, texts in zip(encoders, (given, [normalise(row.target) for row in rows]), strict=True)
        )
        pairs = [
            [(encoders[0](normalise(c.source)), encoders[1](normalise(c.target))) for c in row.constraints]
            if constrained
            else []
            for row in rows
        ]
        tag = self.subwords.lead(self.directions[0], self.directions)
        batch = lay_out(source, target, Markers(self.subwords.pad, self.subwords.bos, self.subwords.eos, tag))
        return replace(batch, constraints=constraints_from_ids(pairs, self.subwords.pad))
