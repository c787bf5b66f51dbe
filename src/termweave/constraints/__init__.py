"""Constraints: extracted from word links, drawn anew for training, written down for evaluation."""
