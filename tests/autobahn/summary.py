"""Sums up a report of the Autobahn suite: `summary.py INDEX.JSON` prints a table by section and every case not plainly OK.

Exit status 1 if any case failed.
"""

import collections
import json
import pathlib
import sys

SECTIONS = {
    1: "Framing",
    2: "Pings and pongs",
    3: "Reserved bits",
    4: "Opcodes",
    5: "Fragmentation",
    6: "UTF-8",
    7: "Closing",
    9: "Limits and performance",
    10: "Miscellaneous",
}
GOOD = ("OK", "NON-STRICT", "INFORMATIONAL")

index = pathlib.Path(sys.argv[1])
(cases,) = json.loads(index.read_text()).values()
counts = collections.defaultdict(collections.Counter)
for case, result in cases.items():
    counts[int(case.split(".")[0])][result["behavior"]] += 1

print("| section | cases | OK | non-strict | informational | failed |")
print("|---|---|---|---|---|---|")
for section in sorted(counts):
    count = counts[section]
    good = [count[kind] for kind in GOOD]
    total = sum(count.values())
    shown = " | ".join(str(number) for number in [total, *good, total - sum(good)])
    print(f"| {section} {SECTIONS.get(section, '')} | {shown} |")
total = len(cases)
good = [sum(count[kind] for count in counts.values()) for kind in GOOD]
print("| all | " + " | ".join(str(number) for number in [total, *good, total - sum(good)]) + " |")

failed = 0
for case, result in cases.items():
    found, closing = result["behavior"], result["behaviorClose"]
    failed += found not in GOOD or closing not in GOOD
    if found != "OK" or closing not in ("OK", "INFORMATIONAL"):
        print(f"{case}: {found}, its close {closing}, close code {result['remoteCloseCode']}")
sys.exit(1 if failed else 0)
