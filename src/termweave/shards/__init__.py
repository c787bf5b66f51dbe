"""Corpora of many files, a sentence a line, translated by many processes or machines at once.

1. `inputs.py` finds the shards, `formats.py` cuts each into chunks of some rows.
2. `work.py` translates a chunk: whichever process does it writes the result, whole or not at all, into the folder
   `.shards` of the output (`ledger.py`), so that a chunk is never done twice.
3. An engine has chunks done: `processes.py` on this machine, `ray_engine.py` on a cluster. They differ in nothing else.
4. `job.py` joins the chunks of each shard, in order, as soon as all are there.
"""

from termweave.shards.job import Report, ShardReport, translate_shards
from termweave.shards.work import Settings

__all__ = ["Report", "Settings", "ShardReport", "translate_shards"]
