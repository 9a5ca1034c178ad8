"""pypaimon behind the same line protocol as the Java peer: one JSON request a line, one answer a line.

Commands: version, read, system (snapshots, files), write (with `prepareOnly`: files without a commit), commit
(what was prepared, by `mode` `plain` or `look`), footer. Rows are canonical JSON; what pypaimon
or pyarrow raise goes out as {"error": {"class", "message"}} and is the peer's own word.
"""
import base64
import datetime
import decimal
import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from pypaimon.table.file_store_table import FileStoreTable

EPOCH = datetime.date(1970, 1, 1).toordinal()
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def plain_path(path):
    return path[len("file:"):] if path.startswith("file:") else path


# Names of Java's options for S3, and pypaimon's.
S3_OPTIONS = {
    "s3.endpoint": "fs.s3.endpoint", "s3.access-key": "fs.s3.accessKeyId",
    "s3.secret-key": "fs.s3.accessKeySecret", "s3.region": "fs.s3.region",
}


def open_table(request):
    conf = {S3_OPTIONS[key]: value for key, value in request.get("conf", {}).items() if key in S3_OPTIONS}
    return FileStoreTable.from_path(plain_path(request["path"]), conf)


# ---- Arrow to canonical JSON -------------------------------------------------------------------

def civil(days):
    """Proleptic Gregorian date; years 1 to 9999."""
    return datetime.date.fromordinal(days + EPOCH).isoformat()


def instant(nanos, suffix):
    days, rest = divmod(nanos, 86_400 * 10**9)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{civil(days)}T{clock}.{fraction:09}{suffix}"


def value(kind, scalar):
    """A pyarrow scalar; never through a Python type that cannot hold it."""
    if not scalar.is_valid:
        return None
    if pa.types.is_floating(kind):
        number = scalar.as_py()
        if number != number:
            return "NaN"
        return number if abs(number) != float("inf") else ("Infinity" if number > 0 else "-Infinity")
    if pa.types.is_decimal(kind):
        return format(scalar.as_py(), "f")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return base64.b64encode(scalar.as_py()).decode()
    if pa.types.is_date(kind):
        return civil(scalar.value)
    if pa.types.is_time(kind):
        millis = scalar.value * UNITS[kind.unit] // 10**6
        return f"{millis // 3600000:02}:{millis // 60000 % 60:02}:{millis // 1000 % 60:02}.{millis % 1000:03}"
    if pa.types.is_timestamp(kind):
        return instant(scalar.value * UNITS[kind.unit], "Z" if kind.tz else "")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(kind.value_type, item) for item in scalar.values]
    if pa.types.is_map(kind):
        entries = scalar.values
        keys, items = entries.field(0), entries.field(1)
        return [[value(kind.key_type, keys[i]), value(kind.item_type, items[i])] for i in range(len(entries))]
    if pa.types.is_struct(kind):
        return {f.name: value(f.type, scalar[f.name]) for f in kind}
    return scalar.as_py()


def rows(table):
    columns = [(f.name, f.type, table.column(i)) for i, f in enumerate(table.schema)]
    return [{name: value(kind, column[i]) for name, kind, column in columns} for i in range(table.num_rows)]


# ---- canonical JSON to Arrow -------------------------------------------------------------------

def ticks(text, unit):
    text = text.removesuffix("Z")
    day, clock = text.split("T")
    clock, _, fraction = clock.partition(".")
    hours, minutes, seconds = (list(map(int, clock.split(":"))) + [0])[:3]
    days = datetime.date.fromisoformat(day).toordinal() - EPOCH
    nanos = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    nanos = nanos * 10**9 + int(fraction.ljust(9, "0") or 0)
    return nanos // UNITS[unit]


def python_value(kind, item):
    """Canonical JSON as what `pa.array` takes for the type."""
    if item is None:
        return None
    if pa.types.is_floating(kind):
        return float(item)
    if pa.types.is_decimal(kind):
        with decimal.localcontext() as context:
            context.prec = 60
            return decimal.Decimal(item)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return base64.b64decode(item)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(item)
    if pa.types.is_time(kind):
        clock, _, fraction = item.partition(".")
        hours, minutes, seconds = (list(map(int, clock.split(":"))) + [0])[:3]
        micros = int(fraction.ljust(6, "0")[:6] or 0)
        return datetime.time(hours, minutes, seconds, micros)
    if pa.types.is_timestamp(kind):
        return ticks(item, kind.unit)
    if pa.types.is_list(kind):
        return [python_value(kind.value_type, i) for i in item]
    if pa.types.is_map(kind):
        return [(python_value(kind.key_type, k), python_value(kind.item_type, v)) for k, v in item]
    if pa.types.is_struct(kind):
        return {f.name: python_value(f.type, item.get(f.name)) for f in kind}
    return item


def arrow_table(schema, given):
    arrays = []
    for field in schema:
        values = [python_value(field.type, row.get(field.name)) for row in given]
        arrays.append(pa.array(values, type=field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


# ---- commands ----------------------------------------------------------------------------------

def version(_request):
    import importlib.metadata as metadata
    return {"pypaimon": metadata.version("pypaimon"), "pyarrow": metadata.version("pyarrow")}


def read(request):
    table = open_table(request)
    if request.get("options"):
        table = table.copy(request["options"])
    builder = table.new_read_builder()
    if request.get("projection"):
        builder = builder.with_projection(request["projection"])
    splits = builder.new_scan().plan().splits()
    return rows(builder.new_read().to_arrow(splits))


def snapshots(table):
    manager = table.snapshot_manager()
    listed = []
    for s in sorted(manager.list_snapshots(), key=lambda s: s.id):
        listed.append({
            "snapshot_id": s.id, "schema_id": s.schema_id, "commit_user": s.commit_user,
            "commit_identifier": s.commit_identifier, "commit_kind": s.commit_kind,
            "base_manifest_list": s.base_manifest_list, "delta_manifest_list": s.delta_manifest_list,
            "total_record_count": s.total_record_count, "delta_record_count": s.delta_record_count,
            "watermark": s.watermark,
        })
    return listed


def files(table):
    listed = []
    for split in table.new_read_builder().new_scan().plan().splits():
        for f in split.files:
            listed.append({
                "bucket": split.bucket, "file_path": f.file_path or f.file_name, "schema_id": f.schema_id,
                "level": f.level, "record_count": f.row_count, "file_size_in_bytes": f.file_size,
                "min_sequence_number": f.min_sequence_number, "max_sequence_number": f.max_sequence_number,
            })
    return listed


def system(request):
    table = open_table(request)
    known = {"snapshots": snapshots, "files": files}
    return known[request["table"]](table)


def stream(request, table):
    """A stream writer under the request's user: its builder makes one up and has no way to be given one."""
    builder = table.new_stream_write_builder()
    builder.commit_user = request["commitUser"]
    return builder


def write(request):
    from pypaimon.schema.data_types import PyarrowFieldParser
    table = open_table(request)
    schema = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
    if request.get("prepareOnly"):
        return prepare(request, table, arrow_table(schema, request["rows"]))
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        writer.write_arrow(arrow_table(schema, request["rows"]))
        commit.commit(writer.prepare_commit())
    finally:
        writer.close()
        commit.close()
    return {"snapshotId": table.snapshot_manager().get_latest_snapshot().id}


def prepare(request, table, given):
    from pypaimon.write.commit_message_serializer import VERSION, serialize_commit_message
    writer = stream(request, table).new_write()
    try:
        writer.write_arrow(given)
        messages = writer.prepare_commit(request["commitIdentifier"])
    finally:
        writer.close()
    fields = table.partition_keys_fields
    return {
        "commitUser": request["commitUser"], "identifier": request["commitIdentifier"], "messageVersion": VERSION,
        "messages": [base64.b64encode(serialize_commit_message(m, fields)).decode() for m in messages],
    }


def commit(request):
    """Each committable by `StreamTableCommit.commit`, which does not ask whether it is published (`plain`), or
    only what is above the greatest identifier of this user in the list of snapshots (`look`): a caller's work,
    for pypaimon has no `filterAndCommit`."""
    from pypaimon.write.commit_message_serializer import deserialize_commit_message
    table = open_table(request)
    committables = sorted(request["committables"], key=lambda one: one["identifier"])
    if request.get("mode") == "look":
        mine = [s for s in table.snapshot_manager().list_snapshots() if s.commit_user == request["commitUser"]]
        newest = max((s.commit_identifier for s in mine), default=0)
        committables = [one for one in committables if one["identifier"] > newest]
    publisher = stream(request, table).new_commit()
    try:
        for one in committables:
            fields = table.partition_keys_fields
            messages = [
                deserialize_commit_message(base64.b64decode(text), fields, version=one["messageVersion"])
                for text in one["messages"]
            ]
            publisher.commit(messages, one["identifier"])
    finally:
        publisher.close()
    latest = table.snapshot_manager().get_latest_snapshot()
    return {"committed": len(committables), "snapshotId": latest.id if latest else None}


def footer(request):
    """What pyarrow sees in a Parquet file."""
    meta = pq.ParquetFile(plain_path(request["path"])).metadata
    chunks = [meta.row_group(g).column(c) for g in range(meta.num_row_groups) for c in range(meta.num_columns)]
    return {
        "codecs": sorted({c.compression for c in chunks}),
        "row_groups": meta.num_row_groups,
        "dictionaries": sum(c.has_dictionary_page for c in chunks),
        "rows": meta.num_rows,
    }


COMMANDS = {
    "version": version, "read": read, "system": system, "write": write, "commit": commit, "footer": footer,
}


def answer(line):
    try:
        request = json.loads(line)
        return {"result": COMMANDS[request["command"]](request)}
    except Exception as e:  # noqa: BLE001 - whatever the peer raises is its word
        return {"error": {"class": type(e).__name__, "message": str(e)}}


def main():
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries that print must not disturb the answers
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(answer(line), ensure_ascii=True), file=out, flush=True)
    out.flush()
    os._exit(0)  # pyarrow 19.0.1 aborts at interpreter exit in about 1 of 25 runs


if __name__ == "__main__":
    main()
