"""Do the kernels compile for a GPU, where there is none to run them? Their interpreter takes more than a compiler.

    TRITON_INTERPRET=1 PYTHONPATH=tests python -m pytest -p kernel_compilation tests/model/test_copy_kernels.py
    PYTHONPATH=src python tests/kernel_compilation.py

As a plugin it writes down with which types and constants the tests call which kernel; as a program it compiles those
for an H100. `make kernels` does both.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch

ASKED_FOR = Path("build/kernels.json")
CAPABILITY, WARP = 90, 32  # of an H100 and an H200
OPTIONS = ("num_warps", "num_stages", "maxnreg")
TYPES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.bool: "i1",
    torch.uint8: "u8",
}


def pytest_configure(config: Any) -> None:
    from triton.runtime.interpreter import InterpretedFunction

    config.kernels = {}
    interpret = InterpretedFunction.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        given = {**dict(zip(self.arg_names, arguments, strict=False)), **named}
        call = described(self.fn, given)
        config.kernels[json.dumps(call, sort_keys=True)] = call
        return interpret(self, *arguments, grid=grid, warmup=warmup, **named)

    InterpretedFunction.run = run


def pytest_sessionfinish(session: Any) -> None:
    ASKED_FOR.parent.mkdir(exist_ok=True)
    ASKED_FOR.write_text(json.dumps(list(session.config.kernels.values())))


def described(kernel: Any, given: dict[str, Any]) -> dict[str, Any]:
    """A call of a kernel: what the compiler must know of it."""
    types, constants = {}, {}
    for name in kernel.__code__.co_varnames[: kernel.__code__.co_argcount]:
        value = given[name]
        if "constexpr" in str(kernel.__annotations__.get(name, "")):
            types[name], constants[name] = "constexpr", getattr(value, "value", value)
        else:
            types[name] = type_of(value)
    options = {name: given[name] for name in OPTIONS if name in given}
    return {
        "module": kernel.__module__,
        "kernel": kernel.__name__,
        "types": types,
        "constants": constants,
        "options": options,
    }


def type_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"*{TYPES[value.dtype]}"
    if isinstance(value, bool):
        return "i1"
    return "i32" if isinstance(value, int) else "fp32"


def compile_all() -> int:
    """How many do not compile; told with the compiler's reason."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    failed, calls = 0, json.loads(ASKED_FOR.read_text())
    for call in calls:
        kernel = getattr(importlib.import_module(call["module"]), call["kernel"])
        source = ASTSource(kernel, call["types"], call["constants"])
        try:
            compile(source, target=GPUTarget("cuda", CAPABILITY, WARP), options=call["options"] or None)
        except Exception as error:  # the compiler raises whatever its passes do
            failed += 1
            print(f"{call['kernel']} does not compile: {call}\n{error}")
    names = {call["kernel"] for call in calls}
    print(f"{len(calls) - failed} of {len(calls)} forms of {len(names)} kernels compile for capability {CAPABILITY}")
    return failed


if __name__ == "__main__":
    sys.exit(1 if compile_all() else 0)
