"""The tables, and the statements that are prepared."""

from __future__ import annotations

from typing import Final
from uuid import NAMESPACE_URL, uuid5

VERSION: Final = 1
"""The version of the tables."""
_TABLES: Final = """
rows    ("app" text, "kind" text, "id" text, "key" text, "value" blob, "version" bigint, "stamp" blob, "owner" text,
        "place" frozen<tuple<bigint, bigint>>, "due" bigint, "weight" bigint, "moved" bigint, "shelved" text,
        PRIMARY KEY (("app", "kind", "id"), "key")) WITH
shelves ("app" text, "kind" text, "id" text, "shelf" text, "key" text, "value" blob,
        PRIMARY KEY (("app", "kind", "id", "shelf"), "key")) WITH
lists   ("app" text, "list" text, "bucket" bigint, "at" bigint, "number" bigint, "kind" text, "id" text,
        PRIMARY KEY (("app", "list", "bucket"), "at", "number", "kind", "id"))
        WITH CLUSTERING ORDER BY ("at" DESC, "number" DESC, "kind" DESC, "id" DESC) AND gc_grace_seconds = 86400 AND
meta    ("name" text PRIMARY KEY, "value" text) WITH
"""
# The head of a partition is the row with the empty key, so that one batch compares it and sets rows beside it.
_STATEMENTS: Final = """
version       SELECT "value" FROM @meta WHERE "name" = 'version'
head          SELECT "version", "value", "owner", "place", "due", "stamp", "weight", "moved", "shelved"
              FROM @rows WHERE @name AND "key" = ''
newest_write  SELECT WRITETIME("stamp") FROM @rows WHERE @name AND "key" = ''
set_head      UPDATE @rows USING TTL ? SET "version" = ?, "value" = ?, "owner" = ?, "place" = ?, "due" = ?,
              "stamp" = ?, "weight" = ? WHERE @name AND "key" = '' IF "stamp" = ?
drop_head     DELETE FROM @rows WHERE @name AND "key" = '' IF "stamp" = ?
set_row       UPDATE @rows SET "value" = ? WHERE @name AND "key" = ?
drop_row      DELETE FROM @rows WHERE @name AND "key" = ?
rows          SELECT "key", "value" FROM @rows WHERE @name AND @between LIMIT ?
rows_newest   SELECT "key", "value" FROM @rows WHERE @name AND @between ORDER BY "key" DESC LIMIT ?
rows_written  SELECT "key", "value", WRITETIME("value") FROM @rows WHERE @name AND "key" > ''
rows_times    SELECT "key", WRITETIME("value") FROM @rows WHERE @name AND "key" > ''
drop_rows     DELETE FROM @rows USING TIMESTAMP ? WHERE @name AND "key" > '' AND "key" < ?
seal          UPDATE @rows USING TIMESTAMP ? SET "moved" = ?, "shelved" = ? WHERE @name AND "key" = ''
shelf         SELECT "key", "value" FROM @shelves WHERE @name AND "shelf" = ? AND @between LIMIT ?
shelf_newest  SELECT "key", "value" FROM @shelves WHERE @name AND "shelf" = ? AND @between ORDER BY "key" DESC LIMIT ?
shelf_times   SELECT "key", WRITETIME("value") FROM @shelves WHERE @name AND "shelf" = ?
add_shelf     UPDATE @shelves SET "value" = ? WHERE @name AND "shelf" = ? AND "key" = ?
set_shelf     UPDATE @shelves USING TIMESTAMP ? SET "value" = ? WHERE @name AND "shelf" = ? AND "key" = ?
drop_in_shelf DELETE FROM @shelves USING TIMESTAMP ? WHERE @name AND "shelf" = ? AND "key" = ?
drop_shelf    DELETE FROM @shelves USING TIMESTAMP ? WHERE @name AND "shelf" = ?
list          SELECT "kind", "id", "at", "number" FROM @lists WHERE @bucket AND ("at", "number") < (?, ?) LIMIT ?
buckets       SELECT "at" FROM @lists WHERE @bucket
due           SELECT "kind", "id", "at", "number" FROM @lists WHERE @bucket
              AND ("at", "number", "kind", "id") > (?, ?, ?, ?) AND ("at") <= (?)
              ORDER BY "at" ASC, "number" ASC, "kind" ASC, "id" ASC LIMIT ?
enter         INSERT INTO @lists ("app", "list", "bucket", "at", "number", "kind", "id")
              VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?
leave         DELETE FROM @lists WHERE @bucket AND "at" = ? AND "number" = ? AND "kind" = ? AND "id" = ?
"""


def _named(texts: str) -> dict[str, str]:
    """Texts by the word that each begins with; what goes on is indented."""
    entries = texts.strip().replace("\n  ", " ").splitlines()
    return {entry.split()[0]: " ".join(entry.split()[1:]) for entry in entries}


def statements(prefix: str) -> dict[str, str]:
    """Every statement by its name."""
    words = {f"@{table}": f'"{prefix}sessions_{table}"' for table in _named(_TABLES)}
    words["@name"] = '"app" = ? AND "kind" = ? AND "id" = ?'
    words["@bucket"] = '"app" = ? AND "list" = ? AND "bucket" = ?'
    words["@between"] = '"key" >= ? AND "key" < ?'
    found = _named(_STATEMENTS)
    for word, meant in words.items():
        found = {name: text.replace(word, meant) for name, text in found.items()}
    return found


def schema(keyspace: str, prefix: str) -> list[str]:
    """What creates the tables.

    Two processes that create a table at once would make two of one name, of which one is lost, had it no id.
    """
    found: list[str] = []
    for table, columns in _named(_TABLES).items():
        name = f"{prefix}sessions_{table}"
        found.append(f'CREATE TABLE IF NOT EXISTS "{name}" {columns} id = {uuid5(NAMESPACE_URL, f"{keyspace}/{name}")}')
    written = f'"{prefix}sessions_meta" ("name", "value") VALUES (\'version\', \'{VERSION}\')'
    return [*found, f"INSERT INTO {written}"]
