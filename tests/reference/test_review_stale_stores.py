"""What is built from files is built anew when they change (D30: QlibRL's normaliser keeps the statistics of the files before)."""

from __future__ import annotations

import numpy as np

from tests.execution_market import random_bars, store_of


def test_a_store_follows_its_files(tmp_path):
    """In the same place and under the same name: what counts is what the files hold."""
    bars, built = random_bars(), []
    for _ in range(2):
        store = store_of(bars, tmp_path)
        built.append((store.fingerprint, store.array("close").copy()))
        bars[["open", "high", "low", "close"]] *= 2.0
    assert built[0][0] != built[1][0]
    np.testing.assert_array_equal(built[1][1], 2.0 * built[0][1])
