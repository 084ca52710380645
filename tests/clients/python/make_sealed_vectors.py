"""Writes tests/vectors/sealed.json: sealed by AES-GCM of the library cryptography, and opened again by jwcrypto.

  make_sealed_vectors.py [FILE]     the same bytes each time; without FILE they are printed

Initialization vectors are made of the entries' names, so that they are the same each time. Nothing but a vector may do that.
"""

import hashlib
import json
import pathlib
import sys
import zlib

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from make_vectors import KEYS, TIME
from sealing import Shut, header, opened, parsed, twice
from signing import ALGORITHMS, covered, decode, encode, sign


def key(kid, secret, **more):
    """A key that seals, as a JSON Web Key."""
    k = {"kty": "oct", "kid": kid, "alg": "A256GCM", "use": "enc", "k": encode(secret), "agent_id": "bob"}
    return {**k, **more}


# The content encryption key of RFC 7516 appendix A.1.2.
RFC7516_A1 = bytes([
    177, 161, 244, 128, 84, 143, 225, 115, 63, 180, 3, 255, 107, 154, 212, 246,
    138, 7, 110, 91, 112, 46, 34, 105, 47, 130, 203, 46, 122, 234, 64, 252,
])  # fmt: skip
BOB = key("rfc7516-a1", RFC7516_A1)
COUNTING = key("counting-32", bytes(range(32)), not_before="2026-01-01T00:00:00Z", not_after="2999-01-01T00:00:00Z")
CREW = key("für alle 😀", bytes(range(100, 132)), agent_id="crew")

MESSAGE = {"id": "m-1", "version": "1.0.0", "type": "note", "sender": {"agent_id": "alice"}, "receiver": {"agent_id": "bob"}}
TO_GROUP = {"id": "m-1", "version": "1.0.0", "type": "note", "sender": {"agent_id": "alice"}, "group_id": "crew"}


def jwe(name, text, protected, secret, aad=None):
    """The flattened form; `text` and `protected` are bytes, and `aad` is what the tag covers if not `protected`."""
    iv = hashlib.sha256(name.encode()).digest()[:12]
    protected = encode(protected)
    sealed = AESGCM(secret).encrypt(iv, text, (aad or protected).encode())
    return {"protected": protected, "iv": encode(iv), "ciphertext": encode(sealed[:-16]), "tag": encode(sealed[-16:])}


def sealed(name, text, head=MESSAGE, jwk=BOB):
    """An envelope around a text that is sealed as the protocol wants it."""
    protected = json.dumps(header(head, jwk["kid"]), ensure_ascii=False, separators=(",", ":")).encode()
    payload = jwe(name, text if isinstance(text, bytes) else text.encode(), protected, decode(jwk["k"]))
    return {**head, "payload": payload, "timestamp": TIME, "encrypt": True}


# --- what opens ---

PAYLOADS = {
    "null": "null",
    "true": "true",
    "an empty text": '""',
    "an empty object": "{}",
    "an empty array": "[]",
    "a number": "0",
    "numbers as they are spelled": "[9007199254740993,1.50,-0.0,1E+2,1e-7,5e-324,123456789012345678901234567890,0.1000]",
    "spaces and lines": '{\r\n\t"b" : 1 ,\n "a" : [ ]\n}',
    "keys that are not sorted": '{"z":1,"a":2,"ä":3,"😀":4,"\ue000":5,"":6}',
    "emoji": '"😀👩‍👩‍👧🏳️‍🌈"',
    "escaped emoji": r'"\ud83d\ude00\uD83D\uDE00"',
    "combining marks": '"e\u0301 é \u212b Å"',
    "line separators": '"\u2028\u2029\u0085"',
    "controls": r'"\u0000\u001f\b\t\n\f\r\"\\\/\u007f"',
    "CJK and right to left": '"潮汐港口 日本語 한국어 𠀋 שלום"',
    "last code points": '"\uffff\U0010ffff\ud7ff\ue000\ufeff"',
    "needless escapes": r'{"\u0061":"\u0041\u00e9\u20ac"}',
    "100 levels": "[" * 99 + '{"a":{}}' + "]" * 99,
    "20,000 characters": '"' + "潮a😀é" * 5000 + '"',
    "an event of an agent": '{"event":"tool_call","call_id":"c-1","arguments":{"path":"/a b","lines":[1,2]},"usage":{"n":17}}',
    "what looks sealed": '{"protected":"e30","iv":"","ciphertext":"","tag":""}',
}


def good():
    """Name, key and envelope of each entry that opens."""
    for at, (name, text) in enumerate(PAYLOADS.items()):
        head, jwk = [(MESSAGE, BOB), (MESSAGE, COUNTING), (TO_GROUP, CREW)][at % 3]
        yield f"payload: {name}", jwk, sealed(name, text, head, jwk)
    odd = {**MESSAGE, "id": 'm-"é😀\\/', "sender": {"agent_id": "alice in wonder*land", "system_id": "lab", "capabilities": ["x"]}}
    odd["receiver"] = {"agent_name": "B", "agent_id": "bob > 日本"}
    yield "ids that need escapes", BOB, sealed("ids", '"x"', odd)
    yield "to those with a role", CREW, sealed("role", '"x"', {**TO_GROUP, "target_type": "role", "target_ids": ["worker"]}, CREW)
    yield "zero values", BOB, {**sealed("zero", '"x"'), "group_id": "", "broadcast": False, "ttl": 0, "target_ids": []}
    yield "a header in another order, with spaces", BOB, in_header("order", lambda h: {n: h[n] for n in reversed(h)}, indent=1)
    yield "a header with escapes", BOB, in_header("escapes", lambda h: h, then=lambda text: text.replace(b'"alg": "dir', rb'"\u0061lg": "\u0064ir'))
    envelope = sealed("members", '"x"')
    yield "an empty encrypted_key", BOB, {**envelope, "payload": {**envelope["payload"], "encrypted_key": ""}}
    yield "members in another order", BOB, {**envelope, "payload": dict(reversed(envelope["payload"].items()))}
    yield "marked by Harbor", BOB, {**envelope, "harbor": {"verified": "somebody"}}


def signatures():
    """Name, key, envelope, signer and covered text of each entry that is sealed and signed."""
    for signer in KEYS[:3]:
        for head, jwk in ((MESSAGE, COUNTING), (TO_GROUP, CREW)):
            name = f"signed ({signer['kid']}) and sealed ({jwk['kid']})"
            envelope = {**sealed(name, PAYLOADS["numbers as they are spelled"], head, jwk), "signature_algorithm": ALGORITHMS[signer["alg"]]}
            data = covered(envelope)
            yield name, jwk, {**envelope, "signature": sign(signer, data)}, signer, data.decode()


# --- what does not ---


def in_header(name, change, then=lambda text: text, **style):
    """A message with another header, rightly sealed under it."""
    protected = then(json.dumps(change(header(MESSAGE, BOB["kid"])), **style).encode())
    return {**MESSAGE, "payload": jwe(name, b'"x"', protected, RFC7516_A1), "timestamp": TIME, "encrypt": True}


def bad_headers():
    """Name and envelope; all but the header is right, the tag too."""
    wrong = {"alg": "A256KW", "enc": "A128GCM", "kid": "another", "iss": "eve", "aud": "eve", "jti": "m-2"}
    for member, value in wrong.items():
        yield f"header: no {member}", in_header(f"no {member}", lambda h: {n: v for n, v in h.items() if n != member})
        yield f"header: another {member}", in_header(f"other {member}", lambda h: {**h, member: value})
        yield f"header: {member} is null", in_header(f"null {member}", lambda h: {**h, member: None})
    for member, value in [
        ("alg", "DIR"), ("alg", "none"), ("alg", "RSA-OAEP"), ("enc", "a256gcm"), ("enc", "A256CBC-HS512"), ("iss", "Alice"),
        ("iss", "alice "), ("aud", ["bob"]), ("aud", ""), ("jti", 1), ("kid", "rfc7516-A1"),
    ]:  # fmt: skip
        yield f"header: {member} is {json.dumps(value)}", in_header(f"{member} {value}", lambda h: {**h, member: value})
    added = {"crit": [], "typ": "JOSE", "cty": "json", "apu": "", "p2c": 1, "exp": 32503680000, "jwk": {}, "x": None}
    for member, value in added.items():
        yield f"header: {member} added", in_header(f"{member} added", lambda h: {**h, member: value})
    yield "header: crit names jti", in_header("crit", lambda h: {**h, "crit": ["jti"]})
    squeezed = in_header("zip", lambda h: {**h, "zip": "DEF"})
    compress = zlib.compressobj(wbits=-15)
    text = compress.compress(b'"x"') + compress.flush()
    payload = jwe("zip", text, decode(squeezed["payload"]["protected"]), RFC7516_A1)
    yield "header: zip, and compressed", {**squeezed, "payload": payload}
    yield "header: aud twice", in_header("aud twice", lambda h: h, then=lambda text: text[:-1] + b', "aud": "bob"}')
    yield "header: an array", in_header("array", lambda h: [h])
    yield "header: its values in an array", in_header("values", lambda h: list(h.values()))
    yield "header: empty", in_header("empty", lambda h: {})
    yield "header: no JSON", in_header("no JSON", lambda h: h, then=lambda text: text[:-1])
    yield "header: bytes after it", in_header("after", lambda h: h, then=lambda text: text + b"{}")
    yield "header: a byte order mark", in_header("mark", lambda h: h, then=lambda text: b"\xef\xbb\xbf" + text)


def moves():
    """Name and envelope: a rightly sealed payload in an envelope that it is not of."""
    right, to_group = sealed("moved", '"x"'), sealed("moved", '"x"', TO_GROUP, {**CREW, **{n: BOB[n] for n in ("kid", "k")}})
    for name, envelope, change in [
        ("to another id", right, {"id": "m-2"}),
        ("to another sender", right, {"sender": {"agent_id": "eve"}}),
        ("to a sender with the same name", right, {"sender": {"agent_id": "eve", "agent_name": "alice"}}),
        ("to another receiver", right, {"receiver": {"agent_id": "eve"}}),
        ("back to its sender", right, {"sender": {"agent_id": "bob"}, "receiver": {"agent_id": "alice"}}),
        ("to a group", right, {"receiver": None, "group_id": "crew"}),
        ("to nobody", right, {"receiver": None}),
        ("to a system", right, {"receiver": None, "broadcast": True}),
        ("to a receiver and a group", right, {"group_id": "crew"}),
        ("to another group", to_group, {"group_id": "crew2"}),
        ("from a group to an agent", to_group, {"group_id": "", "receiver": {"agent_id": "bob"}}),
        ("from a group to a member as well", to_group, {"receiver": {"agent_id": "crew"}}),
        ("to a message that is not sealed", right, {"encrypt": False}),
        ("to a message that does not say so", right, {"encrypt": None}),
    ]:
        whole = {**envelope, **change}
        yield f"moved {name}", {member: value for member, value in whole.items() if value is not None}
    other = sealed("other", '"y"', {**MESSAGE, "id": "m-2"})
    yield "the payload of the next message", {**right, "payload": other["payload"]}
    for part in ("protected", "iv", "ciphertext", "tag"):
        yield f"{part} of the next message", {**right, "payload": {**right["payload"], part: other["payload"][part]}}


def bad_parts():
    """Name and envelope: one member of the payload touched."""
    # Under this name iv, ciphertext and tag each have a `-` and a `_`.
    right = sealed("parts 452", '"as long as this text has to be 🙂 for it"')
    parts = right["payload"]

    def put(**change):
        return {**right, "payload": {**parts, **change}}

    def cut(part, length):
        return put(**{part: encode(decode(parts[part])[:length])})

    for part in parts:
        yield f"no {part}", {**right, "payload": {n: v for n, v in parts.items() if n != part}}
        yield f"{part} is null", put(**{part: None})
        yield f"{part} is a number", put(**{part: 1})
        yield f"{part} is empty", put(**{part: ""})
        yield f"{part} with padding", put(**{part: parts[part] + "=" * (-len(parts[part]) % 4 or 4)})
        yield f"{part} with a line end", put(**{part: parts[part] + "\n"})
        yield f"{part} with a space", put(**{part: parts[part][:4] + " " + parts[part][4:]})
        bits = bytearray(decode(parts[part]))
        bits[-1] ^= 1
        yield f"a bit of {part} turned", put(**{part: encode(bytes(bits))})
        standard = parts[part].replace("-", "+").replace("_", "/")
        if standard != parts[part]:
            yield f"{part} in the other alphabet", put(**{part: standard})
    for length in (15, 12, 8, 4):
        yield f"a tag of {length} bytes", cut("tag", length)
    for length in (11, 8):
        yield f"an iv of {length} bytes", cut("iv", length)
    yield "a tag of 17 bytes", put(tag=encode(decode(parts["tag"]) + b"\0"))
    yield "an iv of 16 bytes", put(iv=encode(decode(parts["iv"]) + bytes(4)))
    yield "a shorter ciphertext", cut("ciphertext", -1)
    yield "a longer ciphertext", put(ciphertext=encode(decode(parts["ciphertext"]) + b"\0"))
    basic = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = basic[basic.index(parts["tag"][-1]) ^ 1]
    yield "another last character of tag for the same bytes", put(tag=parts["tag"][:-1] + last)
    for member, value in [
        ("header", {}), ("header", {"kid": BOB["kid"]}), ("unprotected", {}), ("unprotected", {"alg": "dir"}), ("aad", ""),
        ("encrypted_key", "AAAA"), ("encrypted_key", None), ("recipients", []), ("payload", ""), ("x", 1),
    ]:  # fmt: skip
        yield f"{member} {json.dumps(value)} added", put(**{member: value})
    aad = encode(b"more")
    protected = decode(parts["protected"])
    with_aad = jwe("aad", b'"x"', protected, RFC7516_A1, f"{parts['protected']}.{aad}")
    yield "aad, covered by the tag", {**right, "payload": {**with_aad, "aad": aad}}
    yield "the general form", {**right, "payload": {**parts, "recipients": [{}]}}
    yield "the compact form", {**right, "payload": f"{parts['protected']}..{parts['iv']}.{parts['ciphertext']}.{parts['tag']}"}
    yield "its members in an array", {**right, "payload": [parts["protected"], "", *list(parts.values())[1:]]}
    for name, payload in (("null", None), ("a text", "x"), ("an open object", {"text": "x"}), ("empty", {})):
        yield f"the payload is {name}", {**right, "payload": payload}
    for name, text in [
        ("empty", b""), ("no JSON", b"hello"), ("two values", b"1 2"), ("not UTF-8", b'"\xff"'), ("cut", b'{"a":1'),
        ("NaN", b"NaN"), ("JSON after a byte order mark", b"\xef\xbb\xbf1"), ("with a NUL behind it", b"1\0"), ("an open control", b'"\n"'),
    ]:  # fmt: skip
        yield f"what was sealed is {name}", sealed(name, text)


def bad_keys():
    """Name, key and envelope: another key than it was sealed with, or not now."""
    right = sealed("keys", '"x"')
    yield "another key of the same name", key(BOB["kid"], bytes(32)), right
    yield "a key that differs in one bit", key(BOB["kid"], RFC7516_A1[:-1] + bytes([RFC7516_A1[-1] ^ 1])), right
    yield "the same key under another name", key("renamed", RFC7516_A1), right
    yield "a key that has ended", {**BOB, "not_after": "2026-01-01T00:00:00Z"}, right
    yield "a key of the future", {**BOB, "not_before": "2999-01-01T00:00:00Z"}, right


def entry(name, jwk, envelope):
    """An entry as it stands in the file."""
    return {"name": name, "key": jwk, "envelope": json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))}


def unique(entries):
    """The entries, whose names must differ."""
    names = [each["name"] for each in entries]
    assert len(set(names)) == len(names), "two entries have one name"
    return entries


def main():
    """Makes the file; nothing stands in it that jwcrypto sees otherwise."""
    first = [{**entry(*given), "payload": opened(given[2], given[1])} for given in good()]
    for given in signatures():
        both = {"payload": opened(given[2], given[1]), "signer": given[3], "canonical": given[4]}
        first.append({**entry(*given[:3]), **both})
    closed = [entry(name, BOB, envelope) for some in (bad_headers(), moves(), bad_parts()) for name, envelope in some]
    closed += [entry(*given) for given in bad_keys()]
    text = closed[0]["envelope"]
    tag = json.loads(text)["payload"]["tag"]
    for spelled in (r'"tag"', r'"\u0074ag"'):
        closed.append({**entry(f"{spelled} twice", BOB, {}), "envelope": entry("", BOB, sealed("twice", '"x"'))["envelope"].replace(
            '"tag":', f'{spelled}:"{tag}","tag":'
        )})  # fmt: skip
    for each in closed:
        try:
            raise SystemExit(f"{each['name']}: {opened(json.loads(each['envelope'], object_pairs_hook=twice), each['key'])}")
        except Shut:
            pass
    assert all(parsed(each["envelope"]) for each in first)
    made = json.dumps({"opened": unique(first), "shut": unique(closed)}, indent=1) + "\n"
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(made)
    else:
        print(made, end="")


if __name__ == "__main__":
    main()
