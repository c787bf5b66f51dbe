"""The engine of one machine, with real processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace

import pytest
from engine_here import Here

from termweave.errors import DataError
from termweave.shards import translate_shards
from termweave.shards.processes import Processes, visible_gpus


class Killing(Processes):
    """Kills a worker as soon as there is a first result."""

    def __call__(self, settings, chunks):
        for number, done in enumerate(super().__call__(settings, chunks)):
            if not number:
                self.crew = {child.pid for child in multiprocessing.active_children()}
                os.kill(min(self.crew), signal.SIGKILL)
            yield done


def test_two_processes_write_what_one_writes_though_one_is_killed(corpus, settings, tmp_path):
    asked, engine = settings("Haus=house"), Killing(workers=2)
    report = translate_shards([corpus], tmp_path / "out", asked, engine, rows=4)
    assert len(engine.crew) == 2 and report.tally.sentences == 33
    translate_shards([corpus], tmp_path / "here", asked, Here(), rows=4)
    for name in ("a.de", "more/b.de.gz", "none.de"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert not multiprocessing.active_children()


def test_a_chunk_on_which_two_workers_fail_is_named(corpus, settings, tmp_path):
    broken = replace(settings(), device=None)  # a mistake of ours, not of the user
    with pytest.raises(
        DataError, match=r"a\.de, lines 1 to 23: two workers failed on these lines \(TypeError: .*\); .*goes on"
    ):
        translate_shards([corpus / "a.de"], tmp_path / "out", broken, Processes(workers=1))
    assert not multiprocessing.active_children()


def test_gpus_are_shared_out_by_name(monkeypatch: pytest.MonkeyPatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus("auto") == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-ab")
    assert visible_gpus("cuda") == ["3", "GPU-ab"]
    assert visible_gpus("cuda:1") == visible_gpus("cpu") == []
