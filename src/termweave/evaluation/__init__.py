"""Evaluation: how good a translation is, and whether it honours its constraints."""
