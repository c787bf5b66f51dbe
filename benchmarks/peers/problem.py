"""What every engine is given: one random Transformer-base, random sentences, random constraints, and the protocol.

Needs numpy alone, so that each engine can use it from its own environment. Speed does not depend on the weights, but
with the same ones everywhere the outputs can be compared, and nobody can be fast by computing something else.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

DIMENSION, LAYERS, HEADS, FEED_FORWARD, VOCABULARY = 512, 6, 8, 2048, 32000
PADDING, BEGIN, END, UNKNOWN, FIRST_WORD = 0, 1, 2, 3, 10
LONGEST_CONSTRAINT = 3
POSITIONS = 128


@dataclass(frozen=True)
class Request:
    """One line of the protocol."""

    batch: int  # sentences a round
    beam: int = 4
    length: int = 25  # tokens of every source and of every output
    constraints: int = 0  # for each sentence
    up_to: bool = False  # each has from none to so many, instead of exactly so many
    shared: bool = False  # one list of constraints for all sentences, instead of one for each
    rounds: int = 1
    seed: int = 1
    show: bool = False  # answer with the outputs too


@dataclass(frozen=True)
class Problem:
    """The sentences of one round; as many lists of constraints as sentences."""

    sources: list[list[int]]
    constraints: list[list[list[int]]]


@dataclass(frozen=True)
class Decoded:
    outputs: list[list[int]]  # without begin mark
    steps: int  # of the decoder, for each sentence


Decode = Callable[[], list[Decoded]]  # of one problem after the other


def make_problem(request: Request, seed: int) -> Problem:
    random = np.random.default_rng(seed)
    sources = random.integers(FIRST_WORD, VOCABULARY, (request.batch, request.length)).tolist()
    least = 0 if request.up_to else request.constraints
    numbers = random.integers(least, request.constraints + 1, 1 if request.shared else request.batch)
    lists = [make_constraints(int(number), random) for number in numbers]
    return Problem(sources, lists * request.batch if request.shared else lists)


def make_constraints(number: int, random: np.random.Generator) -> list[list[int]]:
    """Phrases of one to three tokens, no token twice: searches differ in what they do when constraints overlap."""
    sizes = random.integers(1, LONGEST_CONSTRAINT + 1, number)
    tokens = FIRST_WORD + random.choice(VOCABULARY - FIRST_WORD, int(sizes.sum()), replace=False)
    return [part.tolist() for part in np.split(tokens, np.cumsum(sizes)[:-1])] if number else []


def make_weights(seed: int = 1) -> dict[str, Array]:
    """Every parameter under the name that MarianMTModel gives it."""
    random = np.random.default_rng(seed)
    embedding = random.standard_normal((VOCABULARY, DIMENSION), dtype=np.float32) * np.float32(DIMENSION**-0.5)
    embedding[:FIRST_WORD] = 0.0  # so that the search produces words only, in every engine
    weights = {"model.shared.weight": embedding}
    for side, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for layer in range(LAYERS):
            for name, value in _layer(attentions, random):
                weights[f"model.{side}.layers.{layer}.{name}"] = value
    return weights


def _layer(attentions: tuple[str, ...], random: np.random.Generator) -> Iterator[tuple[str, Array]]:
    for attention in attentions:
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _linear(f"{attention}.{projection}", DIMENSION, DIMENSION, random)
        yield from _norm(f"{attention}_layer_norm")
    yield from _linear("fc1", FEED_FORWARD, DIMENSION, random)
    yield from _linear("fc2", DIMENSION, FEED_FORWARD, random)
    yield from _norm("final_layer_norm")


def _linear(name: str, outputs: int, inputs: int, random: np.random.Generator) -> Iterator[tuple[str, Array]]:
    bound = math.sqrt(6 / (inputs + outputs))
    yield f"{name}.weight", random.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)
    yield f"{name}.bias", random.uniform(-0.1, 0.1, outputs).astype(np.float32)


def _norm(name: str) -> Iterator[tuple[str, Array]]:
    yield f"{name}.weight", np.ones(DIMENSION, dtype=np.float32)
    yield f"{name}.bias", np.zeros(DIMENSION, dtype=np.float32)


def sinusoidal_positions() -> Array:
    """(POSITIONS, DIMENSION): sines in the first half, cosines in the second."""
    rates = 10000.0 ** (-np.arange(0, DIMENSION, 2) / DIMENSION)
    angles = np.arange(POSITIONS)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def serve(version: str, prepare: Callable[[Request, list[Problem]], Decode]) -> None:
    """Answer each request on standard input with a line on standard output.

    `prepare` does what is not to be timed and returns what is: all problems of a request, one batch after the other.
    """
    gc.freeze()  # the engine stays; only what a round leaves behind is to be looked through
    for line in sys.stdin:
        if line.strip():
            answer = {**_answer(Request(**json.loads(line)), prepare), "version": version}
            print(json.dumps(answer), flush=True)


def _answer(request: Request, prepare: Callable[[Request, list[Problem]], Decode]) -> dict[str, object]:
    problems = [make_problem(request, request.seed + number) for number in range(request.rounds)]
    decode = prepare(request, problems)
    gc.collect()
    gc.disable()  # as `timeit` does: what the problems left behind is not to be cleared away on an engine's account
    started, started_processor = time.perf_counter(), time.process_time()  # the latter: all threads
    decoded = decode()
    processor, wall = time.process_time() - started_processor, time.perf_counter() - started
    gc.enable()
    for own in decoded:
        _check(own, request)
    pairs = zip(decoded, problems, strict=True)
    answer = {
        "cpu_seconds": round(processor, 4),
        "wall_seconds": round(wall, 4),
        "sentences": request.batch * request.rounds,
        "steps": request.length,  # checked
        "constraints": sum(len(own) for problem in problems for own in problem.constraints),
        "constraints_kept": sum(count_kept(own.outputs, problem.constraints) for own, problem in pairs),
    }
    return {**answer, "outputs": decoded[-1].outputs} if request.show else answer


def _check(decoded: Decoded, request: Request) -> None:
    """Who does less than was asked for must not be measured."""
    lengths = {len(output) for output in decoded.outputs}
    if len(decoded.outputs) != request.batch or lengths != {request.length} or decoded.steps != request.length:
        raise RuntimeError(
            f"{len(decoded.outputs)} outputs of lengths {sorted(lengths)} in {decoded.steps} steps; "
            f"wanted {request.batch} of {request.length}"
        )
    if any(token < FIRST_WORD for output in decoded.outputs for token in output):
        raise RuntimeError("an output holds a mark, so the search may have ended before the last step")


def count_kept(outputs: list[list[int]], constraints: list[list[list[int]]]) -> int:
    return sum(_contains(output, phrase) for output, own in zip(outputs, constraints, strict=True) for phrase in own)


def _contains(tokens: list[int], phrase: list[int]) -> bool:
    return any(tokens[start : start + len(phrase)] == phrase for start in range(len(tokens) - len(phrase) + 1))
