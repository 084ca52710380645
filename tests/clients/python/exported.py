"""What `harbor keys export` gives, read by jwcrypto, which Harbor does not use.

  exported.py SET           prints the thumbprint of each key (RFC 7638)
  exported.py SET FILE      prints which key verifies the signed envelope in FILE
"""

import json
import pathlib
import sys

from cryptography.exceptions import InvalidSignature
from jwcrypto import jwk

from signing import covered, decode


def main(keys, envelope=None):
    """Reads the set, which must hold nothing secret."""
    keys = sorted(jwk.JWKSet.from_json(pathlib.Path(keys).read_text())["keys"], key=lambda key: key["kid"])
    if any(key.has_private for key in keys):
        raise SystemExit("FAIL a secret was exported")
    if envelope is None:
        print(*[key.thumbprint() for key in keys], sep="\n")
        return
    envelope = json.loads(pathlib.Path(envelope).read_text())
    for key in keys:
        try:
            key.get_op_key("verify").verify(decode(envelope["signature"]), covered(envelope))
            print("verified", key["kid"])
        except InvalidSignature:
            pass


main(*sys.argv[1:])
