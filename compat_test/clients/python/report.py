"""The report on what a Python client does (see ../README.md)."""

import os
import sys
import traceback

import features
import groups

FEATURES = os.path.join(os.path.dirname(__file__), "..", "features")


def main(name, version, make):
    """Prints the report on the client that make(address) returns. It is called with the arguments ADDRESS PREFIX, or as
    the process that a feature kills with ADDRESS --victim GROUP TOPIC."""
    address, prefix, *rest = sys.argv[1:]
    if prefix == "--victim":
        groups.victim(make(address), *rest)
    print("version", name, version, flush=True)
    client = make(address)
    with open(FEATURES, encoding="utf-8") as f:
        names = [line.split()[0] for line in f]
    for feature in names:
        function = find(feature)
        if function is None:
            continue  # the one who reads the report misses it
        try:
            function(client, prefix + "-" + feature)
            print(feature, "pass", flush=True)
        except features.Unsupported as e:
            print(feature, "unsupported", e, flush=True)
        except Exception as e:
            traceback.print_exc()
            reason = " ".join(str(e).split())
            print(feature, "fail", f"{type(e).__name__}: {reason}"[:300], flush=True)


def find(feature):
    """The function that shows a feature, which has its name."""
    name = feature.replace("-", "_")
    return getattr(features, name, None) or getattr(groups, name, None)
