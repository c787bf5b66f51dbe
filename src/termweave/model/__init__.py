"""The Transformer, its constraint vectors and output layers, and checkpoints."""

from termweave.model.checkpoint import (
    Checkpoint,
    average_weights,
    load_checkpoint,
    require_same_vocabulary,
    save_checkpoint,
)
from termweave.model.transformer import DecoderMemory, Encoded, Transformer, constraint_parameters

__all__ = [
    "Checkpoint",
    "DecoderMemory",
    "Encoded",
    "Transformer",
    "average_weights",
    "constraint_parameters",
    "load_checkpoint",
    "require_same_vocabulary",
    "save_checkpoint",
]
