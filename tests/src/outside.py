"""What pypaimon, a reader that is not ours, finds in a table: TABLE_DIR on the command line.

Prints one JSON document: the sorted ids of the newest snapshot, the number of rows of each retained
snapshot and the greatest one's id.
"""

import json
import os
import re
import sys

from pypaimon.table.file_store_table import FileStoreTable


def read(table):
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def main():
    path = sys.argv[1]
    table = FileStoreTable.from_path(path)
    names = os.listdir(os.path.join(path, "snapshot"))
    snapshots = sorted(int(n.split("-")[1]) for n in names if re.fullmatch(r"snapshot-\d+", n))
    rows = {}
    # Every snapshot of a short history, of a long one the first, the last and some between.
    step = max(1, len(snapshots) // 20)
    for snapshot in sorted(set(snapshots[::step]) | set(snapshots[-1:])):
        rows[snapshot] = read(table.copy({"scan.snapshot-id": str(snapshot)})).num_rows
    ids = sorted(read(table)["id"].to_pylist()) if snapshots else []
    print(json.dumps({"ids": ids, "rows": rows, "snapshots": len(snapshots)}))


main()
