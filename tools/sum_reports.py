"""Sum pytest's XML reports: a line for each run, the reasons for skipped tests, and the total."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path


def main(paths: list[str]) -> int:
    total: Counter[str] = Counter()
    print("== total")
    for path in paths:
        run: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        suite = next(ET.parse(path).getroot().iter("testsuite"))
        for case in suite.iter("testcase"):
            if (skipped := case.find("skipped")) is not None:
                run["skipped"] += 1
                reasons[skipped.get("message") or "no reason given"] += 1
            elif case.find("failure") is not None or case.find("error") is not None:
                run["failed"] += 1
            else:
                run["passed"] += 1
        counts = ", ".join(f"{run[key]} {key}" for key in ("passed", "failed", "skipped"))
        print(f"{Path(path).stem:14} {counts} in {float(suite.get('time', 0)):.0f} s")
        for reason, count in reasons.items():
            print(f"{'':14} skipped {count}: {reason}")
        total += run
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
