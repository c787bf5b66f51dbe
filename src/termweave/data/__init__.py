"""Parallel text in, prepared memory-mapped corpora and token batches out.

Import the modules themselves: batches need torch, which the processes that prepare text can do without.
"""
