"""Offset's computations in JavaScript, beside torch."""

from __future__ import annotations

import pytest
import torch
from javascript import JavaScript

MODULE = "offset/compute.js"


def test_distances_are_those_of_torch(javascript: JavaScript) -> None:
    rows = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    found = javascript(MODULE, "distances", rows, 64)
    apart = torch.pdist(rows)
    expected = {"smallest": apart.min(), "largest": apart.max(), "first": apart[0]}
    assert found == pytest.approx({k: v.item() for k, v in expected.items()}, rel=1e-5)


def test_a_token_is_its_content_plus_the_scaled_row(javascript: JavaScript) -> None:
    tokens, offsets = torch.randn(2, 6, 2, generator=torch.Generator().manual_seed(1))
    for scale in (0.0, 0.5, 1.5):
        found = javascript(MODULE, "point", tokens, offsets, 4, 2, scale)
        assert found == pytest.approx((tokens[4] + scale * offsets[2]).tolist(), rel=1e-6)


def test_the_box_holds_the_tokens_at_every_scale(javascript: JavaScript) -> None:
    tokens, offsets = torch.randn(2, 30, 2, generator=torch.Generator().manual_seed(2))
    box = torch.tensor(javascript(MODULE, "extent", tokens, offsets, 1.5))
    scales = torch.linspace(0, 1.5, 16)[:, None, None]
    points = (tokens + scales * offsets).reshape(-1, 2)
    expected = torch.stack([points.min(dim=0).values, points.max(dim=0).values], dim=1)
    torch.testing.assert_close(box, expected, rtol=1e-6, atol=1e-6)
