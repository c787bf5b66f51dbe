"""Tensors that go to a device together; memory that is kept."""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import pytest
import torch

from termweave.accelerators import ALIGNMENT, CPU, Piece

SHAPES = [(torch.long, (2, 3, 4)), (torch.bool, (5,)), (torch.bool, (2, 70)), (torch.long, (0, 3)), (torch.long, (7,))]


def test_the_tensors_of_a_piece_are_its_arrays():
    piece = Piece(SHAPES)
    arrays = piece.arrays()
    assert not any(array.any() for array in arrays)
    for number, array in enumerate(arrays):
        array[...] = np.arange(array.size).reshape(array.shape) % (number + 2)  # nothing lies on top of another
    for number, ((kind, shape), tensor) in enumerate(zip(SHAPES, piece.tensors(CPU), strict=True)):
        assert tensor.dtype == kind and tensor.shape == shape and tensor.is_contiguous()
        assert torch.equal(tensor, (torch.arange(tensor.numel()).view(shape) % (number + 2)).to(kind))


@pytest.mark.parametrize("device", [CPU, torch.device("meta")])
def test_they_share_aligned_memory_on_any_device(device):
    tensors = Piece(SHAPES).tensors(device)
    assert all(tensor.device == device for tensor in tensors)
    sizes = {tensor.untyped_storage().nbytes() for tensor in tensors}
    starts = [tensor.storage_offset() * tensor.itemsize for tensor in tensors]
    assert sizes == {3 * ALIGNMENT + ALIGNMENT + 3 * ALIGNMENT + ALIGNMENT}
    assert starts == [0, 3 * ALIGNMENT, 4 * ALIGNMENT, 7 * ALIGNMENT, 7 * ALIGNMENT]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this habit, and can be told")
@pytest.mark.parametrize("threads", [False, True])
def test_memory_that_is_freed_is_used_again(threads):
    """In a process of its own: it holds for good. Fresh pages fault when they are first written to."""
    program = f"""
import resource, threading, torch
from termweave.accelerators import keep_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    for number in range(20):
        torch.ones(2**24)  # 64 MiB
        if number == 9:
            before = faults()
    print((faults() - before) * resource.getpagesize())

keep_memory()
if {threads}:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
"""
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(found.stdout) < 2**26  # less than one such block in ten


def test_objects_are_looked_through_less_often_and_never_more_often():
    """In a process of its own: it holds for good."""
    program = """
import gc
from termweave.accelerators import COLLECT_AFTER, collect_seldom
older = gc.get_threshold()[1:]
collect_seldom()
assert gc.get_threshold() == (COLLECT_AFTER, *older)
gc.set_threshold(2 * COLLECT_AFTER)
collect_seldom()
assert gc.get_threshold() == (2 * COLLECT_AFTER, *older)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
