"""Any experiment on a scale of minutes: the same graph of models, systems and tables, on the toy corpus."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from termweave.experiments.context import WORK
from termweave.experiments.plan import Experiment, ModelPlan, SpeedPlan, TestSetPlan
from termweave.experiments.toy import ToyCorpus, write_toy_corpus


@dataclass(frozen=True)
class Scale:
    """How small; the default takes minutes on two processor cores."""

    pairs: int = 2500  # of training text
    test_sentences: int = 60
    dimension: int = 64
    stage1_steps: int = 250
    stage2_steps: int = 200
    alignment_steps: int = 80
    samples: int = 1000

    def settings(self) -> tuple[str, ...]:
        return (
            f"model.dimension={self.dimension}",
            "model.heads=2",
            "model.encoder_layers=1",
            "model.decoder_layers=1",
            f"model.feed_forward={2 * self.dimension}",
            "model.dropout=0.0",
            "training.batch_tokens=1200",
            "training.log_every=20",
            "training.checkpoint_every=1000",
            "training.keep=1",
            "training.average=1",
            f"training.stage1.steps={self.stage1_steps}",
            "training.stage1.learning_rate=5e-3",
            "training.stage1.warmup=50",
            f"training.stage2.steps={self.stage2_steps}",
            "training.stage2.learning_rate=5e-3",
            "training.stage2.warmup=30",
            f"training.alignment.steps={self.alignment_steps}",
            "training.alignment.learning_rate=5e-3",
            "training.alignment.warmup=20",
            "subwords.size=900",
            "data.workers=1",
        )


def smoke(experiment: Experiment, scale: Scale = Scale()) -> Experiment:
    """The experiment with toy data and tiny models, under a name and in a folder of its own."""
    batches = experiment.speed.batches
    small = dataclasses.replace(
        experiment,
        name=f"{experiment.name}-smoke",
        folder=f"{experiment.folder}-smoke" if experiment.folder else "",
        link_pairs=scale.pairs,
        samples=scale.samples,
        speed=SpeedPlan(tuple(sorted({min(batches), max(batches)})), scale.test_sentences),
    )
    corpus = write_toy_corpus(small.root / WORK / "toy", sentences=scale.pairs, seed=experiment.seed)
    turned = ('data.directions=["en-de"]',) if _is_turned(experiment) else ()
    return dataclasses.replace(
        small,
        config=str(corpus.config),
        settings=(*scale.settings(), *turned),
        models=tuple(_small_model(model, scale) for model in experiment.models),
        test_sets=tuple(_toy_test_set(test_set, corpus, scale) for test_set in experiment.test_sets),
    )


def _is_turned(experiment: Experiment) -> bool:
    """Does it translate the other way than its files go? Then so does the toy, which goes from German to English."""
    keys = [setting.partition("=") for setting in experiment.settings]
    directions = [value for key, _, value in keys if key == "data.directions"]
    ways = {test_set.languages for test_set in experiment.test_sets}
    return any(f'"{"-".join(reversed(way.split("-")))}"' in value for way in ways if way for value in directions)


def _small_model(model: ModelPlan, scale: Scale) -> ModelPlan:
    # The scale comes last: a model's own number of layers or steps would make it slow. One that grows still does.
    sides = [side for side in ("encoder", "decoder") if any(f"{side}_layers" in key for key in model.settings)]
    grown = (f"model.{side}_layers=2" for side in sides if model.start)
    return dataclasses.replace(model, settings=(*model.settings, *scale.settings(), *grown))


def _toy_test_set(test_set: TestSetPlan, corpus: ToyCorpus, scale: Scale) -> TestSetPlan:
    """Sets that bring links get the toy corpus's gold links; the others learn theirs, as they will in earnest."""
    paths = corpus.test_tokens if test_set.links else corpus.validation
    return dataclasses.replace(
        test_set,
        source=str(paths[0]),
        target=str(paths[1]),
        links=str(corpus.test_links) if test_set.links else "",
        languages="de-en",
        note="toy corpus",
        sentences=scale.test_sentences,
    )
