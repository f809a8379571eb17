import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.corpus.hashing import Interner, KeyTable, hash_strings, pack, unpack


def test_keys_are_the_same_everywhere():
    """These numbers are part of the model format: a change breaks every model file."""
    assert hash_strings(["", "the", "Zürich"]).tolist() == [
        17665956581633026203,
        10383438331419178197,
        14294024177641339485,
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=4))
def test_key_table_is_a_dictionary(batches):
    table, expected = KeyTable(16), {}
    for batch in batches:
        keys = np.array(batch, np.uint64)
        rows, firsts = table.insert(keys)
        new = []
        for i, key in enumerate(batch):
            if key and key not in expected:
                expected[key] = len(expected)
                new.append(i)
        assert rows.tolist() == [expected[k] if k else -1 for k in batch]
        assert firsts.tolist() == new
    assert table.keys().tolist() == list(expected)
    probe = np.arange(60, dtype=np.uint64)
    assert table.lookup(probe).tolist() == [expected.get(k, -1) for k in range(60)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=5), max_size=30))
def test_interning_and_packing(strings):
    interner = Interner()
    ids = interner.ids_of(strings)
    assert [interner.strings[i] for i in ids] == strings
    assert len(set(interner.strings)) == len(interner.strings)
    assert unpack(*pack(strings)) == strings
