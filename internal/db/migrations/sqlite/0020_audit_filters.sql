-- One index for each filter of the audit log, in the order of the log, so that a filter
-- that matches few entries does not read all entries. The subject's id already has an
-- index.
CREATE INDEX audit_entries_action_idx ON audit_entries (institution_id, action, at, id);
CREATE INDEX audit_entries_actor_id_idx ON audit_entries (institution_id, actor_id, at, id);
CREATE INDEX audit_entries_actor_folded_idx ON audit_entries (institution_id, actor_folded, at, id);
CREATE INDEX audit_entries_actor_type_idx ON audit_entries (institution_id, actor_type, at, id);
CREATE INDEX audit_entries_subject_folded_idx ON audit_entries (institution_id, subject_folded, at, id);
