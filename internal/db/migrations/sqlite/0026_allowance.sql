-- The column has the name of the Go type limitedAction.

ALTER TABLE allowances RENAME COLUMN deed TO action;
