"""Call the explorers' JavaScript from a test, without a browser.

::

    def test_distances(javascript: JavaScript) -> None:
        rows = torch.randn(8, 64)
        found = javascript("offset/compute.js", "distances", rows, 64)
        assert found["first"] == pytest.approx((rows[0] - rows[1]).norm().item(), rel=1e-5)

One process of deno serves all calls of a test session. Tensors become typed arrays (float32,
float64, uint8, int8, int32), and typed arrays come back as flat tensors.
"""

from __future__ import annotations

import base64
import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "dnnl" / "explorers" / "js"
BRIDGE = Path(__file__).with_name("bridge.js")
TYPES = {
    torch.float32: "Float32Array",
    torch.float64: "Float64Array",
    torch.uint8: "Uint8Array",
    torch.int8: "Int8Array",
    torch.int32: "Int32Array",
    torch.uint16: "Uint16Array",
}
DTYPES = {name: dtype for dtype, name in TYPES.items()} | {"Uint8ClampedArray": torch.uint8}


class JavaScriptError(Exception):
    """A call raised in JavaScript."""


def encode(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, Tensor):
        raw = value.detach().contiguous().numpy().tobytes()
        return {"type": TYPES[value.dtype], "data": base64.b64encode(raw).decode()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"type": "Uint8Array", "data": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        return {key: encode(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    return value


def decode(value: Any) -> Any:
    """Return a value of JavaScript as Python has it."""
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"number"}:
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[value["number"]]
    if value.keys() == {"type", "data"} and value["type"] in DTYPES:
        raw = bytearray(base64.b64decode(value["data"]))
        dtype = DTYPES[value["type"]]
        return torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    return {key: decode(one) for key, one in value.items()}


class JavaScript:
    """A process of deno that runs functions of the modules below ``dnnl/explorers/js``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [
                "deno",
                "run",
                "--quiet",
                "--no-config",
                "--no-lock",
                f"--allow-read={MODULES}",
                BRIDGE,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "DENO_NO_UPDATE_CHECK": "1"},
        )

    def _ask(self, **request: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        if "error" in reply:
            raise JavaScriptError(reply["error"])
        return decode(reply["result"])

    def __call__(self, module: str, name: str, *args: Any) -> Any:
        """Return ``name(*args)`` of a module, such as ``"offset/compute.js"``."""
        return self._ask(module=(MODULES / module).as_uri(), name=name, args=encode(args))

    def new(self, module: str, name: str, *args: Any) -> JavaScriptObject:
        """Return an object of a class of a module."""
        url = (MODULES / module).as_uri()
        return JavaScriptObject(
            self, self._ask(module=url, name=name, args=encode(args), make=True)
        )

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class JavaScriptObject:
    """An object of JavaScript; calls and attributes are those of the object."""

    def __init__(self, javascript: JavaScript, number: int) -> None:
        self._javascript, self._number = javascript, number

    def __call__(self, name: str, *args: Any) -> Any:
        """Return ``object.name(*args)``, or the value of an attribute that is not a function."""
        return self._javascript._ask(object=self._number, name=name, args=encode(args))
