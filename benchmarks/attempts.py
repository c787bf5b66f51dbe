"""Why does the paper's output layer meet fewer constraints than the paper says? Attempts on the toy corpus.

    python benchmarks/attempts.py [--only NAME ...] [--output docs/results/attempts.json]

All start from one stage 1 and change something about stage 2 of `paper`. `copy` stands beside them. Each takes a
quarter of a minute to a minute on one core. Done attempts are not done again: their folder is `runs/attempts`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from termweave import storage
from termweave.data.batches import Batch
from termweave.experiments.plan import Experiment, ModelPlan, SystemPlan, TestSetPlan
from termweave.experiments.records import Results
from termweave.experiments.runner import run_experiment
from termweave.experiments.smoke import Scale, smoke
from termweave.model.output import SMALLEST, OutputMemory, PaperOutput, Scores
from termweave.training.objective import Objective

FOLDER = Path("runs/attempts")  # with "-smoke" behind it
SCALE = Scale(stage1_steps=500, stage2_steps=600, test_sentences=300)
ALPHA = "training.stage2.alpha=5"  # that of configs/de-en.toml
ATTEMPTS = {
    "paper": (ALPHA,),
    "paper-long": (ALPHA, "training.stage2.steps=2400"),
    "paper-slow": (ALPHA, "training.stage2.steps=2400", "training.stage2.learning_rate=1e-3"),
    "paper-fast": (ALPHA, "training.stage2.learning_rate=1e-2"),
    "paper-updates": (ALPHA, "training.stage2.steps=2400", "training.batch_tokens=300"),
    "paper-even": ("training.stage2.alpha=1",),
    "paper-heavy": ("training.stage2.alpha=20",),
    "paper-normalised": (ALPHA,),
    "attention": (ALPHA, "model.output=false"),
    "attention-long": (ALPHA, "model.output=false", "training.stage2.steps=2400"),
    "released": (ALPHA, "model.variant=released"),
    "released-slow": (
        ALPHA,
        "model.variant=released",
        "training.stage2.steps=2400",
        "training.stage2.learning_rate=1e-3",
    ),
    "copy": (ALPHA, "model.variant=copy"),
}
WHAT = {
    "paper": "as it is: 600 steps of stage 2, α = 5",
    "paper-long": "four times the steps",
    "paper-slow": "four times the steps at a fifth of the rate",
    "paper-fast": "twice the rate",
    "paper-updates": "four times the steps, each with a quarter of the tokens",
    "paper-even": "α = 1",
    "paper-heavy": "α = 20",
    "paper-normalised": "P divided by its sum over the vocabulary, in training and search",
    "attention": "attention only",
    "attention-long": "attention only, four times the steps",
    "released": "the authors' code",
    "released-slow": "the authors' code, four times the steps at a fifth of the rate",
    "copy": "our own output layer",
}


def plan(names: list[str]) -> Experiment:
    """The attempts as models of one experiment on the smoke scale."""
    test_set = TestSetPlan("toy", "", "", links="-", kinds=("hard",))
    models = [ModelPlan("stage1", "1"), ModelPlan("vanilla", start="stage1", settings=_plain())]
    models += [ModelPlan(name, start="stage1", settings=("model.variant=paper",)) for name in names]
    systems = tuple(SystemPlan(name, name) for name in names)
    small = smoke(Experiment("attempts", "", "vanilla", tuple(models), systems, (test_set,), folder=str(FOLDER)), SCALE)
    own = {name: (*model.settings, *ATTEMPTS[name]) for model in small.models if (name := model.name) in names}
    changed = (ModelPlan(each.name, each.stage, each.start, own.get(each.name, each.settings)) for each in small.models)
    return Experiment(**{**vars(small), "models": tuple(changed)})


def _plain() -> tuple[str, ...]:
    return "model.attention=false", "model.output=false"


def mixture(output: PaperOutput, states: Tensor, logs: Tensor, memory: OutputMemory, embedding: Tensor) -> Tensor:
    """log of P / ΣP over the vocabulary, (batch, length, vocabulary)."""
    gate = torch.sigmoid(output.token_part(embedding) + output.state_part(states).unsqueeze(-1))
    vectors = F.embedding(memory.tokens, embedding)
    cosine = (F.normalize(states, dim=-1) @ F.normalize(vectors, dim=-1).mT).clamp(min=0) * memory.filled.unsqueeze(1)
    index = memory.tokens.unsqueeze(1).expand(cosine.shape)
    plug = torch.zeros_like(gate).scatter_reduce(2, index, cosine, "amax")
    mixed = (1 - gate) * logs.exp() + gate * plug
    return mixed.clamp(min=SMALLEST).log() - mixed.sum(dim=-1, keepdim=True).log()


@contextmanager
def normalised() -> Iterator[None]:
    """`paper` with a P that sums to 1. Only here: over a real vocabulary, the sum is costly in training."""
    training, search = Objective.forward, PaperOutput.mix

    def forward(self: Objective, batch: Batch) -> tuple[Tensor, Tensor]:
        model = self.model
        encoded = model.encode(batch.source, batch.constraints)
        if encoded.output is None or not isinstance(model.output, PaperOutput):
            return training(self, batch)
        states = model.decode(batch.target_input, encoded)
        logs = F.linear(states, model.embedding).log_softmax(dim=-1)
        mixed = mixture(model.output, states, logs, encoded.output, model.embedding)
        chosen = torch.where(encoded.output.constrained[:, None, None], mixed, logs)
        likelihood = -(chosen.gather(-1, batch.target.unsqueeze(-1)).squeeze(-1) * batch.weights).sum()
        smoothing = -(logs.mean(dim=-1) * batch.weights).sum()
        return (1 - self.label_smoothing) * likelihood + self.label_smoothing * smoothing, likelihood.detach()

    def mix(self: PaperOutput, states: Tensor, model: Scores, memory: OutputMemory, progress: object) -> Scores:
        logs = search(self, states, model, memory, None).log_probabilities()
        return Scores(logs.log_softmax(dim=-1), logs.new_zeros(logs.shape[:2]))

    Objective.forward, PaperOutput.mix = forward, mix  # type: ignore[method-assign]
    try:
        yield
    finally:
        Objective.forward, PaperOutput.mix = training, search  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(ATTEMPTS), default=list(ATTEMPTS), metavar="NAME")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the models are tiny: a second thread would mostly wait
    small = plan(list(ATTEMPTS))
    others = [f"score.{name}.*" for name in options.only if name != "paper-normalised"]
    if others:
        run_experiment(small, only=others, device="cpu")
    if "paper-normalised" in options.only:
        with normalised():
            run_experiment(small, only=["score.paper-normalised.*"], device="cpu")
    results = Results.open(small.root)
    found = {name: results.get(f"score.{name}.toy.hard") for name in options.only}
    rows = {name: {"what": WHAT[name], **result} for name, result in found.items() if result is not None}
    for name, row in rows.items():
        print(f"{name:<17} CSR {row['csr_phrase_level']:5.1f} %  BLEU {row['bleu']:5.1f}  {row['what']}")
    if options.output:
        storage.write_json(options.output, rows)


if __name__ == "__main__":
    main()
