-- When the oldest entry of an inbox comes of age; NULL: never, or nothing is kept. The housekeeper finds by it the inboxes
-- that nobody writes to, without looking at the others.
ALTER TABLE inbox_head ADD COLUMN due_at INTEGER;
CREATE INDEX inbox_head_due ON inbox_head (due_at) WHERE due_at IS NOT NULL;
-- Inboxes from before this step are looked at once; their own turn then says when they are due.
UPDATE inbox_head SET due_at = 0 WHERE live_rows > 0;
