CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, about TEXT, permit TEXT, updated_at TEXT);
INSERT INTO people VALUES
    (1, 'Anna', '<p>Pays the wages.</p>', 'staff', '2026-01-05T08:00:00Z'),
    (2, 'Ben', '<p>Lays keels.</p>', 'staff,yard', '2026-01-05T08:00:00Z');
