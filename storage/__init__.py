"""SQLite: records, migrations, the one writer, the readers; and the thread-free twin in memory."""
