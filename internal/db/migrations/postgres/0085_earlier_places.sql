-- Before, the place of each stamp was stored for the next one, so that the stamps of an institution became
-- smaller. Without a stored place, the next certificate searches for one.
DELETE FROM stamp_layouts;
