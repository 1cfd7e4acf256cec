"""The rules: what happens to an inbox, as pure functions of values. No trio, no SQL, no clock."""
