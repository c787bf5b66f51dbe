"""Experiments: small and large runs as named, repeatable configurations."""
