-- SPDX-License-Identifier: MIT
-- The views of docs/index.md, with the same columns, and store_id as the last one.

-- A time; and words that NULs separate, with blanks for them.
CREATE FUNCTION at(ns bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE
	RETURN to_timestamp(ns / 1000000000.0);
CREATE FUNCTION words(bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $do$
DECLARE
	line bytea := decode(replace(encode($1, 'escape'), '\000', ' '), 'escape');
BEGIN
	RETURN convert_from(line, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire THEN
	RETURN encode(line, 'escape');
END
$do$;

CREATE VIEW v_store WITH (security_invoker) AS
SELECT store_id, store, owner, host, published_ns, machine, home, changes FROM store;

CREATE VIEW v_session WITH (security_invoker) AS
SELECT session_id, id, host, boot_id, pid, start_ticks, shell, tty, cwd, begin_ns, end_ns, commands,
	invoker, caller_id, origin, store_id
FROM session;

CREATE VIEW v_command WITH (security_invoker) AS
SELECT command_id, id, session_id, session, host, number, text, hidden, redacted, cwd, begin_ns,
	end_ns, status, invoker, shell, process_id, user_us, system_us, max_rss_kib,
	EXISTS (SELECT FROM note n WHERE n.store_id = command.store_id
		AND n.command_id = command.command_id)::int AS noted,
	n_accesses, n_read, n_written, n_skipped, n_incomplete, store_id
FROM command;

CREATE VIEW v_note WITH (security_invoker) AS
SELECT note_id, command, path, version_ns, tag, text, time_ns, host, store_id FROM note;

CREATE VIEW v_definition WITH (security_invoker) AS
SELECT command_id, position, definition, store_id FROM definition;

CREATE VIEW v_process WITH (security_invoker) AS
SELECT process_id, host, pid, start_ticks, ppid, pgid, sid, uid, exe, cwd, argv, streams,
	environment, program_id, command_id, session_id, first_ns, shell, n_accesses, outside, store_id
FROM process;

CREATE VIEW v_loose_process WITH (security_invoker) AS
SELECT * FROM v_process WHERE command_id IS NULL;

CREATE VIEW v_exit WITH (security_invoker) AS
SELECT process_id, command_id, status, user_us, system_us, max_rss_kib, store_id FROM exit;

CREATE VIEW v_program WITH (security_invoker) AS
SELECT program_id, host, boot_id, path, since_ns, process_id, size, mtime_ns, phash, manager,
	package, version, store_id
FROM program;

CREATE VIEW v_lookup WITH (security_invoker) AS
SELECT lookup_id, producer_id, root, begin_ns, last_ns, process_id, command_id, session_id, list,
	store_id
FROM lookup;

CREATE VIEW v_path WITH (security_invoker) AS
SELECT file_id, path, dir, name, name_key, store_id FROM file;

CREATE VIEW v_file WITH (security_invoker) AS
SELECT file_id, path, dir, name, name_key, root, versions, present, last_ns, directory, store_id
FROM file WHERE versions IS NOT NULL;

CREATE VIEW v_version WITH (security_invoker) AS
SELECT version_id, v.file_id, f.path, n, object, decode(substr(object, 1, 6), 'hex') AS object_key,
	flags, size, mode, mtime_ns, phash, source, origin_version_id, access_id, process_id,
	command_id, time_ns, carried, again, v.store_id
FROM version v LEFT JOIN file f ON f.store_id = v.store_id AND f.file_id = v.file_id;

CREATE VIEW v_access WITH (security_invoker) AS
SELECT a.access_id, a.op, a.is_open, a.flags, a.is_read, a.is_written, a.process_id, a.command_id,
	a.session_id, p.host, a.file_id, f.path, a.file2_id,
	coalesce(g.path, words(a.text)) AS path2, a.directory, a.begin_ns, a.end_ns, a.seen_n,
	a.seen_flawed, a.file_id << 32 | a.seen_n AS seen_version_id, a.made_n,
	coalesce(a.file2_id, a.file_id) AS made_file_id,
	coalesce(a.file2_id, a.file_id) << 32 | a.made_n AS made_version_id, a.seq_key, a.store_id
FROM access a
	LEFT JOIN file f ON f.store_id = a.store_id AND f.file_id = a.file_id
	LEFT JOIN file g ON g.store_id = a.store_id AND g.file_id = a.file2_id
	LEFT JOIN process p ON p.store_id = a.store_id AND p.process_id = a.process_id;

CREATE VIEW v_former WITH (security_invoker) AS
SELECT access_id, n, file_id, data, store_id FROM former;

CREATE VIEW v_producer WITH (security_invoker) AS
SELECT producer_id, host, kind, root, pid, boot_id, begin_ns, end_ns, dead, records, lost, store_id
FROM producer;

CREATE VIEW v_gap WITH (security_invoker) AS
SELECT producer_id, host, root, begin_ns, end_ns, store_id FROM gap;

CREATE VIEW v_stats WITH (security_invoker) AS
SELECT commands, sessions, accesses, files, versions, objects, lost, damaged_bytes, unattributed,
	store_id
FROM stats;

CREATE VIEW v_left_out WITH (security_invoker) AS
SELECT flags, versions, store_id FROM left_out;

-- Who used a content, of all people: a row for each use. how: 'read' or 'made'. A content that was
-- only read is not archived: it has no object, and is known by its size and fingerprint.
CREATE VIEW v_use WITH (security_invoker) AS
SELECT v.object, v.size, v.phash, u.how, s.owner, s.host, f.path, v.n, c.id AS command, c.text, c.begin_ns,
	a.begin_ns AS used_ns, s.store_id, a.access_id
FROM version v
	JOIN store s ON s.store_id = v.store_id
	JOIN file f ON f.store_id = v.store_id AND f.file_id = v.file_id
	JOIN access a ON a.store_id = v.store_id
		AND (a.file_id = v.file_id OR a.file2_id = v.file_id)
	JOIN LATERAL (
		SELECT 'read' AS how WHERE a.file_id = v.file_id AND a.seen_n = v.n AND a.is_read = 1
		UNION ALL
		SELECT 'made' WHERE coalesce(a.file2_id, a.file_id) = v.file_id AND a.made_n = v.n
	) u ON true
	LEFT JOIN command c ON c.store_id = a.store_id AND c.command_id = a.command_id;

DO $do$
DECLARE
	v text;
BEGIN
	FOR v IN SELECT viewname FROM pg_views WHERE schemaname = 'shfs'
	LOOP
		EXECUTE format('GRANT SELECT ON %I TO PUBLIC', v);
	END LOOP;
END
$do$;
