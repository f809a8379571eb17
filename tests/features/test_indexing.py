"""Features of all sentences as numbers of rows."""

import numpy as np
import pytest

from turbotag.corpus.hashing import KeyTable
from turbotag.features.indexing import MOST_LOCAL, part_rows


@pytest.mark.parametrize("most", [40, MOST_LOCAL, MOST_LOCAL + 1])
def test_numbers_within_a_sentence_have_as_few_bits_as_they_can(most):
    """Two parts a sentence; the second sentence has `most` different features."""
    rng = np.random.default_rng(most)
    every = rng.integers(1, 1 << 63, 2 * most, dtype=np.uint64)
    table = KeyTable()
    table.insert(every[:-5])
    found = [every[:10], every[3 : 3 + most], np.repeat(every[-9:], 2)]

    def parts(i):
        return found[i], np.array([4, found[i].size])

    ends, local, firsts, rows = part_rows(3, parts, table)
    assert local.dtype == (np.uint16 if most <= MOST_LOCAL else np.int32)
    cuts = np.concatenate([[0], ends])
    for i, keys in enumerate(found):
        expected = table.lookup(keys)
        mine = rows[firsts[i] : firsts[i + 1]]
        assert np.unique(mine).size == mine.size
        for part, given in enumerate((expected[:4], expected[4:])):
            numbers = local[cuts[2 * i + part] : cuts[2 * i + part + 1]]
            np.testing.assert_array_equal(mine[numbers], given[given >= 0])
