"""Creates as many small files as it can, beside others that do the same: `python claimant.py ROOT FILES`."""

from __future__ import annotations

import sys

from headrace.lake import small_files


def main(root: str, files: int) -> None:
    """Wait for a line, then print the numbers of the files that this process created."""
    small_files.exists(root)  # the store is open
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(files):
        if small_files.write_json(f"{root}/{number}.json", {"by": root}, overwrite=False):
            print(number)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
