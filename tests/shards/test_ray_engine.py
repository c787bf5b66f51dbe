"""The engine of a cluster, with a Ray of two workers on this machine. `make ray` installs it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from engine_here import Here

from termweave.errors import ConfigError, DataError
from termweave.shards import translate_shards
from termweave.shards.ray_engine import RayData

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Started once; the engine is given its address, as on any cluster."""
    running: Any = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=128 << 20)
    yield running.address_info["address"]
    ray.shutdown()


def test_two_actors_write_what_one_process_writes(cluster, corpus, settings, tmp_path):
    asked = settings("Haus=house", receipts=True)
    with pytest.raises(KeyboardInterrupt):  # another engine has begun
        translate_shards([corpus], tmp_path / "out", asked, Here(until=2), rows=5, receipts=tmp_path / "told")
    engine = RayData(workers=2, address=cluster)
    report = translate_shards([corpus], tmp_path / "out", asked, engine, rows=5, receipts=tmp_path / "told")
    assert (report.resumed, report.tally.sentences) == (10, 33)
    translate_shards([corpus], tmp_path / "here", asked, Here(), rows=5, receipts=tmp_path / "here-told")
    for name in ("a.de", "more/b.de.gz", "none.de"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
        receipts = f"{name}.jsonl"
        assert (tmp_path / "told" / receipts).read_bytes() == (tmp_path / "here-told" / receipts).read_bytes()


def test_what_fails_twice_is_named(cluster, corpus, settings, tmp_path):
    broken = replace(settings(), device=None)  # a mistake of ours, not of the user
    with pytest.raises(DataError, match=r"a\.de, lines 1 to 23: two workers failed on these lines \(TypeError"):
        translate_shards([corpus / "a.de"], tmp_path / "out", broken, RayData(workers=1, address=cluster))


def test_more_than_the_cluster_has_is_refused(cluster, corpus, settings, tmp_path):
    for engine, message in ((RayData(workers=3), "has room for 2 workers, not for 3"), (RayData(gpus=1), "0 GPUs")):
        with pytest.raises(ConfigError, match=message):
            translate_shards([corpus], tmp_path / "out", settings(), engine)
