"""Databases of an older Postroom, made of one of today's by taking back what its migrations did."""

import apsw

UNDO = {
    2: "DROP INDEX inbox_head_due; ALTER TABLE inbox_head DROP COLUMN due_at",
    3: "ALTER TABLE secret DROP COLUMN key_id; DROP TABLE sealing",
    4: "DROP TABLE agent; DROP TABLE reader; DROP TABLE beacon; DROP TABLE sent_once; DROP TABLE receipt",
    5: "DROP TABLE machine; DROP TABLE presence; DROP TABLE wake_target; DROP TABLE sent_log;"
    " DROP INDEX agent_machine; DROP INDEX receipt_open; ALTER TABLE reader DROP COLUMN served",
    6: "DROP TABLE search_words; DROP TABLE search_index; DROP TABLE search_upkeep",
    7: "",  # it changed rows alone
}


def go_back(db: apsw.Connection, step: int) -> None:
    """Leave a database as the schema step of that number had left it; what later ones made is lost."""
    for later in range(db.execute("SELECT max(n) FROM schema_step").get, step, -1):
        db.execute(UNDO[later]).fetchall()
        db.execute("DELETE FROM schema_step WHERE n = ?", (later,)).fetchall()
