"""The same translations on a GPU as on the CPU, where there is one."""

from __future__ import annotations

import pytest
import torch

from termweave import Constraint, Translator

SENTENCES = ["der alte Müller verkauft Mehl", "ein Haus am Fluss", "Mehl"]
CONSTRAINTS = [[Constraint("Müller", "old miller"), Constraint("Mehl", "flour")], [Constraint("Haus", "house")], []]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("options", [{"search": "beam"}, {}, {"ordered": True, "nbest": 2}, {"forbidden": ["river"]}])
def test_the_gpu_gives_what_the_cpu_gives(make_folder, options):
    folder = make_folder("de-en")
    texts = []
    for device in ("cpu", "cuda"):
        results = Translator.load(folder, device).translate(SENTENCES, CONSTRAINTS, **options)
        texts.append([each.text for result in results for each in (result, *result.others)])
    assert texts[0] == texts[1]
