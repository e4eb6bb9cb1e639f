UPDATE people SET about = '<p>Pays the rent.</p>', updated_at = '2026-01-06T08:00:00Z' WHERE id = 1;
DELETE FROM people WHERE id = 2;
INSERT INTO people VALUES (3, 'Cleo', '<p>Buys timber.</p>', 'staff', '2026-01-06T08:00:00Z');
