"""Seals and opens payloads line by line: sealed.py seal|open KEYS KID

Envelopes come one a line on standard input. `seal` prints them sealed, `open` prints their payloads.
"""

import json
import sys

from sealing import opened, seal


def main(what, keys, kid):
    with open(keys, encoding="utf-8") as file:
        [key] = [key for key in json.load(file)["keys"] if key["kid"] == kid]
    for line in sys.stdin:
        envelope = json.loads(line)
        print(json.dumps(seal(envelope, key)) if what == "seal" else opened(envelope, key))


main(*sys.argv[1:])
