"""Computes the values of tests/vectors/published.json by hashlib, cryptography, jwcrypto and rfc8785: published.py FILE"""

import hashlib
import hmac
import json
import math
import pathlib
import struct
import sys

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwcrypto.jwa import JWA
from jwcrypto.jwk import JWK
from jwcrypto.jws import JWS

from signing import decode, need


def hmacs(case):
    for name, made in (("HMAC-SHA256", hashlib.sha256), ("HMAC-SHA512", hashlib.sha512)):
        mac = hmac.new(bytes.fromhex(case["key"]), bytes.fromhex(case["data"]), made).hexdigest()
        need(len(case[name]) == len(mac) or "test case 5" in case["section"], case)
        need(mac.startswith(case[name]), f"{case['section']}: {name}")


def ed25519(case):
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(case["seed"]))
    need(key.public_key().public_bytes_raw().hex() == case["public"], case["section"])
    need(key.sign(bytes.fromhex(case["message"])).hex() == case["signature"], case["section"])


def jwk(case):
    need(JWK(**case["private"]).export_public(as_dict=True) == case["public"], "the public key")
    need(rfc8785.dumps(case["public"]).decode() == case["thumbprint_input"], "what a thumbprint covers")
    need(JWK(**case["public"]).thumbprint() == case["thumbprint"], "the thumbprint")


def jws(case):
    token = JWS()
    token.deserialize(f"{case['input']}.{case['signature']}", JWK(**case["key"]), case["alg"])
    need(token.is_valid, case["section"])


def a256gcm(case):
    parts = [decode(case[name]) for name in ("iv", "ciphertext", "tag")]
    opened = JWA.encryption_alg("A256GCM").decrypt(decode(case["key"]), case["protected"].encode(), *parts)
    need(opened.decode() == case["plaintext"], case["section"])


def number(case):
    value = struct.unpack(">d", bytes.fromhex(case["ieee754"]))[0]
    if case["json"] is None:
        need(not math.isfinite(value), case)
    else:
        need(rfc8785.dumps(value).decode() == case["json"], case)


def canonical(case):
    need(rfc8785.dumps(json.loads(case["input"])).hex() == case["utf8"], case["section"])


def main(path):
    published = json.loads(pathlib.Path(path).read_text())
    published["jwk"] = [published["jwk"]]
    published["numbers"] = published["numbers"]["values"]
    checks = {"hmac": hmacs, "ed25519": ed25519, "jwk": jwk, "jws": jws, "a256gcm": a256gcm, "numbers": number, "canonical": canonical}
    need(set(published) == set(checks), sorted(published))
    for kind, check in checks.items():
        for case in published[kind]:
            check(case)
            print("ok  ", kind, case.get("section") or case["ieee754"])


main(*sys.argv[1:])
