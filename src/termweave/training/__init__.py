"""The two-stage training."""
