"""Writes tests/vectors/signatures.json, by libraries alone: rfc8785, hmac and cryptography.

  make_vectors.py [FILE]     the same bytes each time; without FILE they are printed
"""

import hashlib
import json
import pathlib
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from signing import ALGORITHMS, covered, decode, encode, sign

ORDER = 2**252 + 27742317777372353535851937790883648493  # of the group of Ed25519
BASIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
TIME = "2026-01-02T03:04:05.678Z"

# --- keys ---

# RFC 7515 appendix A.1.1.
RFC7515_A1 = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
# RFC 8037 appendix A.1, which is test 1 of RFC 8032 section 7.1; then test 2 and test 3 of that section.
RFC8037_A = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
RFC8032_2 = encode(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
RFC8032_3 = encode(bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"))


def oct_key(kid, alg, k):
    """A shared secret as a JSON Web Key."""
    return {"kty": "oct", "kid": kid, "alg": alg, "use": "sig", "k": k, "agent_id": "alice"}


def okp_key(kid, d):
    """A key pair as a JSON Web Key."""
    x = encode(Ed25519PrivateKey.from_private_bytes(decode(d)).public_key().public_bytes_raw())
    return {"kty": "OKP", "crv": "Ed25519", "kid": kid, "alg": "EdDSA", "use": "sig", "x": x, "d": d, "agent_id": "alice"}


KEYS = [
    okp_key("rfc8037-a1", RFC8037_A),
    oct_key("rfc7515-a1", "HS256", RFC7515_A1),
    oct_key("counting-64", "HS512", encode(bytes(range(64)))),
    okp_key("rfc8032-7.1-test2", RFC8032_2),
    oct_key("counting-32", "HS256", encode(bytes(range(32)))),
    oct_key("rfc7515-a1-512", "HS512", RFC7515_A1),
    okp_key("rfc8032-7.1-test3", RFC8032_3),
    oct_key("longer-than-a-block", "HS256", encode(bytes(range(100, 231)))),
    oct_key("longer-than-a-block-512", "HS512", encode(bytes(range(256)))),
]
ED, H256, H512 = KEYS[:3]


def check_keys():
    """The RFCs' own examples, so that a mistyped key cannot pass."""
    assert ED["x"] == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert decode(KEYS[3]["x"]).hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert decode(KEYS[6]["x"]).hex() == "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
    a4 = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    assert sign(ED, b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc") == a4
    a1 = b"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQog"
    a1 += b"Imh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    assert sign(H256, a1) == "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"


# --- envelopes, as they are sent ---


def frame(payload, more=""):
    """An envelope that is not canonical: its members stand in the order of the protocol's document."""
    return (
        '{"id":"m-1","version":"1.0.0","type":"chat","sender":{"agent_id":"alice"},"receiver":{"agent_id":"bob"},'
        f'"payload":{payload},"timestamp":"{TIME}"{more},"signature_algorithm":"@A","signature":"@S"}}'
    )


def canonical_frame(payload, more=""):
    """An envelope that is canonical already, with `more` between `sender` and `signature`."""
    return (
        f'{{"id":"m-1","payload":{payload},"receiver":{{"agent_id":"bob"}},"sender":{{"agent_id":"alice"}}{more}'
        f',"signature":"@S","signature_algorithm":"@A","timestamp":"{TIME}","type":"chat","version":"1.0.0"}}'
    )


NUMBERS = [
    "0", "-0", "10.0", "-0.0", "0e0", "0.0e10", "1e21", "1E21", "1e+21", "1e20", "1e-7", "1e-6", "0.000001", "0.0000001",
    "5e-324", "-5e-324", "2.2250738585072014e-308", "1.7976931348623157e308", "-1.7976931348623157E+308", "0.1", "-0.30",
    "4.50", "2e-3", "0.000000000000000000000000001", "1E30", "1e23", "9.999999999999997e22", "999999999999999900000.0",
    "9007199254740991", "-9007199254740991", "9007199254740992.0", "9007199254740991.0", "333333333.3333333",
    "333333333.33333325", "295147905179352830000.0", "1424953923781206.2", "0.1e1", "123456e-3", "1e00002", "3.141592653589793",
]  # fmt: skip
STRINGS = {
    "emoji": '"😀👩‍👩‍👧🏳️‍🌈"',
    "escaped emoji": r'"\ud83d\ude00\uD83D\uDE00"',
    "combining marks, not composed": '"e\u0301 and \u00e9 are two texts; \u212b and \u00c5 too"',
    "line separators": '"\u2028\u2029\u0085"',
    "escaped line separators": r'"\u2028\u2029"',
    "replacement character": '"\ufffd and \\ufffd"',
    "byte order mark inside": '"\ufeffx\\ufeff"',
    "CJK": '"潮汐港口 日本語 한국어 𠀋"',
    "right to left": '"שלום \u202eabc\u202c"',
    "all controls escaped": '"' + "".join(f"\\u{code:04x}" for code in range(32)) + r'\u007f\u0080"',
    "controls in upper case hexadecimal": r'"\u001F\u000A\u000D\u0009\u0008\u000C"',
    "short escapes": r'"\b\t\n\f\r\"\\\/"',
    "delete and the controls of Latin-1": '"\u007f\u0080\u009f"',
    "needless escapes": r'"\u0041\u00e9\u20ac\u002f\u003c"',
    "for HTML": '"<a href=\'x\'>&amp;</a>"',
    "last code points": '"\uffff\U0010ffff\ud7ff\ue000"',
    "empty": '""',
}
OBJECTS = {
    "keys by UTF-16, not by code point": '{"\ue000":1,"😀":2,"\uffff":3,"\U0010ffff":4,"\ud7ff":5,"a":6}',
    "keys of RFC 8785 section 3.2.3": r'{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",'
    r'"1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}',
    "the sample of RFC 8785 section 3.2.2": '{"numbers":[333333333.3333333,1E30,4.50,2e-3,0.000000000000000000000000001],'
    + r'"string":"\u20ac$\u000F\u000aA'
    + "'"
    + r'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}',
    "keys that are numbers": '{"10":1,"9":2,"1":3,"01":4,"-1":5,"1.5":6,"":7}',
    "keys that JavaScript objects have": '{"toJSON":1,"__proto__":{"b":1,"a":2},"constructor":2,"length":3,"hasOwnProperty":4}',
    "keys that begin alike": '{"aa":1,"a":2,"A":3,"a\\u0000":4,"ab":5,"a b":6,"á":7,"a\u0301":8}',
    "keys that need escapes": r'{"\"":1,"\\":2,"\n":3,"\u0001":4,"\/":5,"\u0061":6}',
    "nested, empty and mixed": '{"z":{"y":{"x":[[],{},[{}],[[1,[2]]]]}},"a":[{"b":2,"a":1},null,true,false,""]}',
    "members of an envelope inside": '{"signature":"s","harbor":{"verified":"k"},"id":{"signature":1}}',
    "120 levels": "[" * 119 + '{"b":1,"a":2}' + "]" * 119,
    "many keys": "{" + ",".join(f'"k{(at * 37) % 101}":{at}' for at in range(101)) + "}",
}
ZEROS = (
    ',"correlation_id":"","reply_to":"","group_id":"","conversation_id":"","ttl":0,"broadcast":false,"encrypt":false,'
    '"target_type":"","target_ids":[],"priority":0'
)
FULL = (
    ',"correlation_id":"c-1","reply_to":"alice","group_id":"crew","conversation_id":"talk","ttl":60,"broadcast":false,'
    '"encrypt":false,"target_type":"role","target_ids":["worker","é"],"priority":7,"expires_at":"2099-01-01T00:00:00+02:00"'
)
UNKNOWN = ',"x-trace":{"b":[1.0,"\\/"],"a":null},"Zeta":1e2,"ähnlich":"\\u00e4","hop":[ ]'
VERIFIED = ',"harbor":{"verified":"somebody","at":1.0}}'
SPACED = (
    '\r\n{ "type" :\t"chat",\n "sender": { "agent_name" : "A", "agent_id" : "alice" } , "version":"1.0.0","payload" : [ 1 ,\n'
    f' 2.0 ] ,"id":"m-1","group_id":"crew", "timestamp":"{TIME}","signature":"@S","signature_algorithm":"@A" }} \n'
)
PLAIN = r'{"deep":{"list":[1,2.5,"\u001f\n\"\\"],"none":null},"text":"é😀"}'


def cases():
    """Name and text of each envelope that is signed rightly."""
    for number in NUMBERS:
        yield f"number {number}", frame(f"[{number}]")
    yield "all numbers in one array", frame(f"[{','.join(NUMBERS)}]")
    for name, text in STRINGS.items():
        yield f"string: {name}", frame(text)
    for name, text in OBJECTS.items():
        yield f"object: {name}", frame(text)
    for text in ("null", "true", "1.0", '"x"', "[]", "{}"):
        yield f"payload {text}", frame(text)
    for _ in range(3):  # each algorithm once
        yield "canonical", canonical_frame(PLAIN)
        yield "canonical, with a member from Harbor at the end", canonical_frame(PLAIN)[:-1] + VERIFIED
        yield "canonical, with a member from Harbor in its place", canonical_frame(PLAIN).replace(
            '"id"', '"harbor":{"verified":"somebody"},"id"'
        )
        yield "not canonical, with a member from Harbor at the end", frame(PLAIN, UNKNOWN)[:-1] + VERIFIED
        yield "every field", frame(PLAIN, FULL)
        yield "zero values", frame("{}", ZEROS)
        yield "unknown members", frame(PLAIN, UNKNOWN)
        yield "spaces and lines", SPACED
    yield "signature first", frame("1").replace('{"id"', '{"signature":"@S","id"').replace(',"signature":"@S"}', "}")
    yield "members spelled with escapes", frame("1").replace('"signature":', r'"sign\u0061ture":').replace('"id":', r'"\u0069d":')
    yield "Harbor's member spelled with escapes", frame("1")[:-1] + r',"h\u0061rbor":{"verified":"x"}}'
    yield "a sender with members nobody knows", frame("1").replace(
        '{"agent_id":"alice"}', '{"z":[1.0,{"b":1,"a":2}],"agent_id":"alice","capabilities":["b","a"],"system_id":""}'
    )
    yield "a text of 3,000 characters", frame('"' + "潮a😀" * 1000 + '"')


def entry(name, text, key):
    """Signs one envelope and puts the signature in."""
    text = text.replace("@A", ALGORITHMS[key["alg"]])
    data = covered(json.loads(text))
    signature = sign(key, data)
    return {
        "name": f"{name} ({key['kid']})",
        "envelope": text.replace("@S", signature),
        "canonical": data.decode(),
        "key": key,
        "algorithm": ALGORITHMS[key["alg"]],
        "signature": signature,
    }


# --- what must be refused ---


def refused():
    """Name, key, code, field and text of each envelope that must be refused; all have a field "signature"."""
    unsafe = [
        "9007199254740992", "-9007199254740992", "9007199254740993", "9007199254740993.0", "100000000000000000000",
        "18446744073709551616", "0.1000000000000000055", "3.14159265358979323846", "333333333.33333329",
        "4.9406564584124654e-324", "1e-400", "123456789012345678e-3", "1.7976931348623157e308000000000000000000000000",
    ]  # fmt: skip
    for number in unsafe[:-1]:
        yield f"number {number}", ED, "unsafe_number", "payload", frame(f'{{"a":[{number}]}}')
        yield f"canonical but for the number {number}", H256, "unsafe_number", "payload", canonical_frame(number)
    yield "an unsafe number in an unknown member", H512, "unsafe_number", "x", frame("1", ',"x":[9007199254740993]')
    for number in ("1e400", "-1E400", unsafe[-1]):
        yield f"number {number}", ED, "invalid_field", "payload", frame(number)
    yield "a key twice in the payload", ED, "duplicate_key", "payload", frame('{"a":1,"b":{"c":1,"c":1}}')
    yield "a key twice, spelled in two ways", H256, "duplicate_key", "payload", frame(r'{"a":1,"\u0061":2}')
    yield "a key twice, canonical otherwise", H256, "duplicate_key", "payload", canonical_frame('{"a":1,"a":2}')
    yield "a key twice in an unknown member", H512, "duplicate_key", "x", frame("1", ',"x":{"a":1,"a":1}')
    yield "an unknown member twice", ED, "duplicate_key", "x", frame("1", ',"x":1,"x":2')
    yield "the payload twice", ED, "duplicate_key", "payload", frame("1", ',"payload":2')
    yield "two signatures", ED, "duplicate_key", "signature", frame("1", r',"sign\u0061ture":"AA"')
    yield "two members from Harbor", ED, "duplicate_key", "harbor", frame("1", r',"harbor":{},"h\u0061rbor":{}')
    yield "a lone surrogate", ED, "invalid_unicode", "payload", frame(r'"\ud83d"')
    yield "a lone surrogate in a key", ED, "invalid_unicode", "payload", frame(r'{"\udc00\ud800":1}')
    yield "no algorithm", ED, "missing_field", "signature_algorithm", frame("1").replace('"@A"', '""')
    yield "no signature", ED, "missing_field", "signature", frame("1").replace('"@S"', '""')
    for algorithm in ("none", "ed25519", "EdDSA", "HS256", "HMAC-SHA256 "):
        text = frame("1").replace("@A", algorithm)
        yield f"algorithm {algorithm}", ED, "bad_signature", "signature_algorithm", text
    for key in KEYS[:3]:
        good = entry("", frame('{"n":1}'), key)
        text, signature = good["envelope"], good["signature"]
        last = BASIC.index(signature[-1])
        raw = bytearray(decode(signature))
        raw[7] ^= 1
        shorter = encode(bytes(decode(signature)[:-1]))
        plain = sign(key, json.dumps({k: v for k, v in json.loads(text).items() if k != "signature"}).encode())
        for name, spoilt in [
            ("another payload", text.replace('"n":1', '"n":2')),
            ("a member added", text[:-1] + ',"added":null}'),
            ("a member taken away", text.replace('"receiver":{"agent_id":"bob"},', "")),
            ("a bit of the signature turned", text.replace(signature, encode(bytes(raw)))),
            ("a shorter signature", text.replace(signature, shorter)),
            ("a longer signature", text.replace(signature, encode(decode(signature) + b"\0"))),
            ("a padded signature", text.replace(signature, signature + "==")),
            ("another last character for the same bytes", text.replace(signature, signature[:-1] + BASIC[last ^ 1])),
            ("signed as it was sent, not canonical", text.replace(signature, plain)),
            ("the algorithm of another key", text.replace(good["algorithm"], ALGORITHMS[KEYS[1 if key is not H256 else 2]["alg"]])),
        ]:
            yield f"{name} ({key['kid']})", key, "bad_signature", "signature", spoilt
    good = entry("", frame("1"), ED)
    raw = decode(good["signature"])
    s = int.from_bytes(raw[32:], "little") + ORDER
    malleable = encode(raw[:32] + s.to_bytes(32, "little"))
    yield "S beyond the order of the group", ED, "bad_signature", "signature", good["envelope"].replace(good["signature"], malleable)
    # R is the neutral element: S = k·a solves the equation, whatever the message (RFC 8032 section 5.1.7).
    seed = hashlib.sha512(decode(ED["d"])).digest()[:32]
    a = int.from_bytes(seed, "little") & (2**254 - 8) | 2**254
    r = (1).to_bytes(32, "little")
    k = int.from_bytes(hashlib.sha512(r + decode(ED["x"]) + good["canonical"].encode()).digest(), "little") % ORDER
    neutral = encode(r + (k * a % ORDER).to_bytes(32, "little"))
    Ed25519PublicKey.from_public_bytes(decode(ED["x"])).verify(decode(neutral), good["canonical"].encode())
    yield "R of small order", ED, "bad_signature", "signature", good["envelope"].replace(good["signature"], neutral)
    other = good["envelope"].replace(good["signature"], sign(KEYS[3], good["canonical"].encode()))
    yield "signed with another key", ED, "bad_signature", "signature", other


def refusal(name, key, code, field, text):
    """Signs what can be signed, so that the signature alone is no reason."""
    text = text.replace("@A", ALGORITHMS[key["alg"]])
    try:
        signature = sign(key, covered(json.loads(text)))
    except (ValueError, UnicodeError):  # this library refuses it too
        signature = sign(key, b"")
    return {"name": name, "envelope": text.replace("@S", signature), "key": key, "code": code, "field": field}


def main():
    """Makes the file."""
    check_keys()
    signed = [entry(name, text, KEYS[at % len(KEYS)]) for at, (name, text) in enumerate(cases())]
    # Whoever has only the public half verifies just as well.
    public = {key: value for key, value in ED.items() if key != "d"}
    signed.append({**entry("a key that can only verify", frame(PLAIN), ED), "key": public})
    names = [each["name"] for each in signed]
    assert len(set(names)) == len(names), "two entries have one name"
    content = {"signed": signed, "refused": [refusal(*given) for given in refused()]}
    text = json.dumps(content, indent=1) + "\n"
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
