"""The hash chain sees every change of a line, and the signature sees one who rewrites the whole chain."""

import json

import pytest

from gnomon.reference.chain import Chain, ChainError, verify

KEY = bytes(range(32))


def chain(values: list[int], key: bytes | None = None) -> list[str]:
    made = Chain()
    for value in values:
        made.append({"value": value})
    made.close("done", key)
    return made.lines


def test_an_honest_chain_gives_its_records_back() -> None:
    assert verify(chain([3, 1, 2])) == [{"value": 3}, {"value": 1}, {"value": 2}]


def test_the_first_hash_is_that_of_the_text_in_the_documentation() -> None:
    import hashlib

    expected = hashlib.sha256(b'{"prev":"' + b"0" * 64 + b'","value":3}').hexdigest()
    assert json.loads(chain([3])[0])["hash"] == expected


def edited(lines: list[str]) -> list[str]:
    return [lines[0].replace('"value":3', '"value":4'), *lines[1:]]


def edited_and_rehashed(lines: list[str]) -> list[str]:
    return [chain([4, 1, 2])[0], *lines[1:]]


def reason_edited(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1].replace("done", "gone")]


FAULTS = {
    "edited": (edited, 0),
    "edited and rehashed": (edited_and_rehashed, 1),
    "removed": (lambda lines: [lines[0], *lines[2:]], 1),
    "first removed": (lambda lines: lines[1:], 0),
    "added": (lambda lines: [lines[0], lines[0], *lines[1:]], 1),
    "reordered": (lambda lines: [lines[1], lines[0], *lines[2:]], 0),
    "cut": (lambda lines: lines[:-1], 3),
    "added after the end": (lambda lines: [*lines, lines[0]], 4),
    "reason edited": (reason_edited, 3),
    "not json": (lambda lines: [lines[0], "{", *lines[2:]], 1),
    "field twice": (lambda lines: [lines[0][:-1] + ',"value":3}', *lines[1:]], 0),
    "empty": (lambda lines: [], 0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_change_of_a_line_passes(fault: str) -> None:
    change, index = FAULTS[fault]
    with pytest.raises(ChainError) as caught:
        verify(change(chain([3, 1, 2])))
    assert caught.value.index == index


def test_a_field_of_the_chain_cannot_be_smuggled_in() -> None:
    with pytest.raises(ValueError, match="belongs to the chain"):
        Chain().append({"prev": "x"})


def test_no_rewritten_chain_passes_for_a_signed_one() -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    public = ed25519.Ed25519PrivateKey.from_private_bytes(KEY).public_key().public_bytes_raw()
    assert verify(chain([1, 2], KEY), public) == [{"value": 1}, {"value": 2}]
    stranger = bytes(reversed(KEY))
    for forged in (chain([1, 3]), chain([1, 3], stranger)):
        assert verify(forged)  # consistent in itself
        with pytest.raises(ChainError):
            verify(forged, public)
    signed, other = chain([1, 2], KEY), chain([1, 3], KEY)
    swapped = json.loads(other[-1]) | {"signature": json.loads(signed[-1])["signature"]}
    with pytest.raises(ChainError, match="signature"):
        verify([*other[:-1], json.dumps(swapped)], public)
