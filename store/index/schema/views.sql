-- SPDX-License-Identifier: MIT
-- The contract for queries, described in docs/index.md. A column that only adds to a row
-- (host, path2) is a scalar subquery: it costs nothing if it is not selected, and the
-- planner cannot begin with it.

-- All notes and tags that were written, and those that count: the latest of each.
CREATE VIEW v_note_record AS
SELECT n.note_id, n.command, n.path, n.version_ns, n.tag, n.text, n.removed, n.time_ns
FROM note n;

CREATE VIEW v_note AS
SELECT n.note_id, n.command, n.path, n.version_ns, n.tag, n.text, n.time_ns,
	(SELECT b.host FROM producer p JOIN boot b USING (boot_id)
		WHERE p.producer_id = n.producer_id) AS host,
	(SELECT c.command_id FROM command c WHERE c.id = n.command) AS command_id
FROM note n
WHERE n.removed = 0 AND NOT EXISTS (SELECT 1 FROM note m WHERE m.command = n.command
	AND m.path = n.path AND m.version_ns = n.version_ns AND m.tag = n.tag
	AND (m.time_ns, m.origin, m.seq) > (n.time_ns, n.origin, n.seq));

-- The strings, unpacked.
CREATE VIEW string_text_of AS
SELECT s.string_id,
	string_text(s.value, (SELECT b.value FROM string b WHERE b.string_id = s.base_id)) AS text
FROM string s;

CREATE VIEW v_session AS
SELECT s.session_id, s.id, b.host, b.boot AS boot_id, s.pid, s.start_ticks, s.shell, s.tty,
	s.cwd,
	iif(s.invoker = '', s.begin_ns, (SELECT min(c.begin_ns) FROM command c
		WHERE c.session_id = s.session_id)) AS begin_ns,
	iif(s.invoker = '', s.end_ns, (SELECT max(c.begin_ns) FROM command c
		WHERE c.session_id = s.session_id)) AS end_ns,
	iif(s.invoker = '', s.commands, (SELECT count(*) FROM command c
		WHERE c.session_id = s.session_id)) AS commands,
	s.invoker, session_caller(s.session_id) AS caller_id,
	(SELECT text FROM string_text_of WHERE string_id = s.origin_id) AS origin
FROM session s JOIN boot b USING (boot_id);

-- The counts are computed only if they are selected.
CREATE VIEW v_command AS
SELECT c.command_id, c.id, c.session_id, s.id AS session,
	(SELECT host FROM boot b WHERE b.boot_id = s.boot_id) AS host,
	c.number, c.text, c.hidden, c.redacted, c.cwd, c.begin_ns,
	iif(c.task_id IS NULL, c.end_ns, command_last_ns(c.command_id)) AS end_ns, c.status,
	s.invoker, coalesce(c.shell, s.shell) AS shell, c.task_id AS process_id,
	c.user_us, c.system_us, c.max_rss_kib,
	EXISTS (SELECT 1 FROM v_note n WHERE n.command = c.id) AS noted,
	command_accesses(c.command_id) AS n_accesses,
	(SELECT count(DISTINCT a.file_id) FROM access a
		WHERE a.command_id = c.command_id AND a.is_read) AS n_read,
	(SELECT count(*) FROM (SELECT a.file_id FROM access a
		WHERE a.command_id = c.command_id AND a.is_written
		UNION SELECT a.file2_id FROM access a WHERE a.command_id = c.command_id
		AND a.file2_id IS NOT NULL AND a.made_n IS NOT NULL)) AS n_written,
	(SELECT coalesce(sum(a.cut), 0) FROM access a
		WHERE a.command_id = c.command_id) AS n_skipped,
	(SELECT coalesce(sum(a.torn), 0) FROM access a
		WHERE a.command_id = c.command_id) AS n_incomplete
FROM command c JOIN session s USING (session_id);

-- Aliases, functions and options that the text of a command used, each as kind, kept,
-- name and NUL, body (common/record.h). NULL stands for one that is not known.
CREATE VIEW v_definition AS
SELECT d.command_id, d.position,
	(SELECT text FROM string_text_of WHERE string_id = d.string_id) AS definition
FROM command_definition d;

CREATE VIEW v_process AS
SELECT p.process_id,
	(SELECT host FROM boot b WHERE b.boot_id = t.boot_id) AS host,
	t.pid, t.start_ticks, t.ppid, (t.pid + t.pgid) & 4294967295 AS pgid, t.sid, p.uid,
	(SELECT text FROM string_text_of WHERE string_id = p.exe_id) AS exe,
	(SELECT text FROM string_text_of WHERE string_id = p.cwd_id) AS cwd,
	(SELECT text FROM string_text_of WHERE string_id = p.argv_id) AS argv,
	(SELECT text FROM string_text_of WHERE string_id = p.streams_id) AS streams,
	(SELECT text FROM string_text_of WHERE string_id = p.environment_id) AS environment,
	(SELECT g.program_id FROM program g WHERE g.path_id = p.exe_id
		AND g.boot_id = t.boot_id AND g.since_ns <= p.first_ns
		ORDER BY g.since_ns DESC LIMIT 1) AS program_id,
	t.command_id, t.session_id, p.first_ns, t.shell, p.accesses AS n_accesses, p.outside
FROM process p JOIN task t ON p.process_id = t.task_id OR p.task_id = t.task_id;

-- What processes have used, for each program that they executed.
CREATE VIEW v_exit AS
SELECT p.process_id, t.command_id,
	iif(e.status & 127, 128 + (e.status & 127), e.status >> 8 & 255) AS status,
	e.user_us, e.system_us, e.max_rss_kib
FROM process p JOIN task t ON p.process_id = t.task_id OR p.task_id = t.task_id
	JOIN task_exit e ON e.task_id = t.task_id;

-- The processes of no command, which are few, and shells.
CREATE VIEW v_loose_process AS
SELECT p.process_id,
	(SELECT host FROM boot b WHERE b.boot_id = t.boot_id) AS host,
	t.pid, t.start_ticks, t.ppid, (t.pid + t.pgid) & 4294967295 AS pgid, t.sid, p.uid,
	(SELECT text FROM string_text_of WHERE string_id = p.exe_id) AS exe,
	(SELECT text FROM string_text_of WHERE string_id = p.cwd_id) AS cwd,
	(SELECT text FROM string_text_of WHERE string_id = p.argv_id) AS argv,
	(SELECT text FROM string_text_of WHERE string_id = p.streams_id) AS streams,
	(SELECT text FROM string_text_of WHERE string_id = p.environment_id) AS environment,
	(SELECT g.program_id FROM program g WHERE g.path_id = p.exe_id
		AND g.boot_id = t.boot_id AND g.since_ns <= p.first_ns
		ORDER BY g.since_ns DESC LIMIT 1) AS program_id,
	t.command_id, t.session_id, p.first_ns, t.shell, p.accesses AS n_accesses, p.outside
FROM task t INDEXED BY task_nobody CROSS JOIN process p
	ON p.process_id = t.task_id OR p.task_id = t.task_id
WHERE t.command_id IS NULL;

-- Which software a path was, in one boot of a host, from since_ns on.
CREATE VIEW v_program AS
SELECT g.program_id, b.host, b.boot AS boot_id,
	(SELECT text FROM string_text_of WHERE string_id = g.path_id) AS path, g.since_ns,
	g.process_id, g.size, g.mtime_ns, g.phash, g.manager, g.package, g.version
FROM program g JOIN boot b USING (boot_id);

-- Names that processes looked up (common/record.h), with their recording.
CREATE VIEW v_lookup AS
SELECT l.lookup_id, l.producer_id, p.root, p.begin_ns, p.last_ns, l.process_id,
	t.command_id, coalesce(c.session_id, t.session_id) AS session_id, l.list
FROM lookup l JOIN producer p USING (producer_id)
	LEFT JOIN process q USING (process_id)
	LEFT JOIN task t ON t.task_id = coalesce(q.task_id, q.process_id)
	LEFT JOIN command c ON c.command_id = t.command_id;

CREATE VIEW v_file AS
SELECT f.file_id, d.path || '/' || f.name AS path, d.path AS dir, f.name,
	name_key(f.name) AS name_key,
	(SELECT text FROM string_text_of WHERE string_id = coalesce(file_root_id(f.data), d.root_id)) AS root,
	f.state >> 3 AS versions, NOT f.state & 1 AS present,
	coalesce(file_last_ns(f.data), (SELECT version_time_ns(v.data) FROM version v
		WHERE v.file_id = f.file_id AND v.n = f.state >> 3), 0) AS last_ns,
	(f.state & 2) / 2 AS directory
FROM file f JOIN directory d USING (directory_id)
WHERE f.state >= 8;

-- All paths, also those without versions.
CREATE VIEW v_path AS
SELECT f.file_id, d.path || '/' || f.name AS path, d.path AS dir, f.name,
	name_key(f.name) AS name_key
FROM file f JOIN directory d USING (directory_id);

CREATE VIEW v_version AS
SELECT v.file_id << 32 | v.n AS version_id, v.file_id,
	(SELECT d.path || '/' || f.name FROM file f JOIN directory d USING (directory_id)
		WHERE f.file_id = v.file_id) AS path,
	v.n, object_name(v.object) AS object, substr(v.object, 1, 3) AS object_key,
	version_flags(v.data) | object_pruned(v.object) AS flags,
	version_size(v.data) AS size,
	version_mode(v.data) AS mode, version_mtime_ns(v.data) AS mtime_ns,
	version_phash(v.data) AS phash,
	version_source(v.data) AS source,
	v.origin_version_id, version_access_id(v.data) AS access_id,
	nullif(version_access_id(v.data) >> 32, 0) AS process_id,
	access_command(version_access_id(v.data)) AS command_id,
	version_time_ns(v.data) AS time_ns, version_is_carried(v.data) AS carried,
	version_is_again(v.data) AS again
FROM version v;

CREATE VIEW v_access AS
SELECT a.access_id,
	op_name(a.op) AS op,
	a.is_open, a.flags, a.is_read, a.is_written, a.process_id, a.command_id, a.session_id,
	(SELECT b.host FROM process p JOIN task t ON t.task_id = coalesce(p.task_id, p.process_id)
		JOIN boot b ON b.boot_id = t.boot_id
		WHERE p.process_id = a.process_id) AS host,
	a.file_id,
	(SELECT d.path || '/' || f.name FROM file f JOIN directory d USING (directory_id)
		WHERE f.file_id = a.file_id) AS path,
	a.file2_id,
	CASE WHEN a.file2_id IS NOT NULL
		THEN (SELECT d.path || '/' || f.name FROM file f
			JOIN directory d USING (directory_id) WHERE f.file_id = a.file2_id)
		ELSE (SELECT text FROM string_text_of WHERE string_id = a.text_id)
		END AS path2,
	a.directory, a.begin_ns, a.end_ns, a.seen_n, a.flawed AS seen_flawed,
	a.file_id << 32 | a.seen_n AS seen_version_id,
	a.made_n, coalesce(a.file2_id, a.file_id) AS made_file_id,
	coalesce(a.file2_id, a.file_id) << 32 | a.made_n AS made_version_id, a.seq AS seq_key
FROM access a
WHERE a.is_shown;

CREATE VIEW v_former AS SELECT access_id, n & 0xffffffff AS n,
	nullif(n >> 32, 0) AS file_id, data FROM former;

-- What `shfs note` writes is no recording of a project.
CREATE VIEW v_producer AS
SELECT p.producer_id, b.host, p.kind, p.root, p.pid, b.boot AS boot_id, p.begin_ns,
	p.end_ns, p.dead, p.records, p.lost
FROM producer p JOIN boot b USING (boot_id)
WHERE p.kind <> 'note';

-- A gap ends with the next begin of a recording of that project on that host.
CREATE VIEW v_gap AS
SELECT p.producer_id, b.host, p.root, p.last_ns AS begin_ns,
	(SELECT min(q.begin_ns) FROM producer q JOIN boot c USING (boot_id)
		WHERE q.root = p.root AND q.begin_ns > p.begin_ns AND q.kind = p.kind
			AND c.host = b.host) AS end_ns
FROM producer p JOIN boot b USING (boot_id)
WHERE p.dead = 1 AND p.end_ns IS NULL AND p.kind <> 'note';

CREATE VIEW v_stats AS
SELECT (SELECT count(*) FROM command) AS commands,
	(SELECT count(*) FROM session) AS sessions,
	s.accesses, s.files, s.versions, s.objects,
	(SELECT coalesce(sum(lost), 0) FROM producer) AS lost,
	(SELECT coalesce(sum(damaged), 0) FROM segment_position) AS damaged_bytes,
	(SELECT count(*) FROM v_loose_process WHERE session_id IS NULL AND n_accesses > 0)
		AS unattributed
FROM state s;

CREATE VIEW v_left_out AS SELECT flags, versions FROM left_out WHERE versions > 0;
