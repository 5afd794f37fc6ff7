-- SPDX-License-Identifier: MIT
-- What queries may ask: the contract, described in docs/index.md. What only decorates a row
-- (host, path2) is a scalar subquery: it costs nothing where it is not asked for, and the
-- planner cannot begin with it.

CREATE VIEW v_session AS
SELECT s.session_id, s.id, b.host, b.boot AS boot_id, s.pid, s.start_ticks, s.shell, s.tty,
	s.cwd, s.begin_ns, s.end_ns, s.commands
FROM session s JOIN boot b USING (boot_id);

CREATE VIEW v_command AS
SELECT c.command_id, c.id, c.session_id, s.id AS session,
	(SELECT host FROM boot b WHERE b.boot_id = s.boot_id) AS host,
	c.number, c.text, c.hidden, c.cwd, c.begin_ns, c.end_ns, c.status,
	c.n_read, c.n_written, c.n_skipped, c.n_incomplete
FROM command c JOIN session s USING (session_id);

CREATE VIEW v_process AS
SELECT p.process_id,
	(SELECT host FROM boot b WHERE b.boot_id = t.boot_id) AS host,
	t.pid, t.start_ticks, t.ppid, t.pgid, t.sid, p.uid,
	(SELECT CAST(value AS TEXT) FROM string WHERE string_id = p.exe_id) AS exe,
	(SELECT CAST(value AS TEXT) FROM string WHERE string_id = p.cwd_id) AS cwd,
	(SELECT CAST(value AS TEXT) FROM string WHERE string_id = p.argv_id) AS argv,
	t.command_id, t.session_id, p.first_ns
FROM process p JOIN task t USING (task_id);

CREATE VIEW v_file AS
SELECT f.file_id, f.path,
	(SELECT CAST(value AS TEXT) FROM string WHERE string_id = f.root_id) AS root,
	f.versions, f.present, f.last_ns, f.directory
FROM file f
WHERE f.versions > 0;

CREATE VIEW v_version AS
SELECT v.version_id, v.file_id, f.path, v.n, v.object, v.flags, v.size, v.mode, v.mtime_ns,
	v.phash,
	CASE v.source WHEN 1 THEN 'written' WHEN 2 THEN 'found' WHEN 3 THEN 'renamed'
		WHEN 4 THEN 'linked' END AS source,
	v.origin_version_id, v.access_id, a.process_id, a.command_id, v.time_ns, v.carried
FROM version v JOIN file f USING (file_id)
	LEFT JOIN access a ON a.access_id = v.access_id;

CREATE VIEW v_access AS
SELECT a.access_id,
	CASE a.op WHEN 0 THEN 'open' WHEN 1 THEN 'rename' WHEN 2 THEN 'exchange'
		WHEN 3 THEN 'link' WHEN 4 THEN 'unlink' WHEN 5 THEN 'mkdir' WHEN 6 THEN 'rmdir'
		WHEN 7 THEN 'symlink' WHEN 8 THEN 'mknod' WHEN 9 THEN 'chmod'
		WHEN 10 THEN 'chown' WHEN 11 THEN 'utimes' WHEN 12 THEN 'truncate'
		WHEN 13 THEN 'xattr' END AS op,
	a.flags, a.is_read, a.is_written, a.process_id, a.command_id, a.session_id,
	(SELECT host FROM boot b JOIN producer p USING (boot_id)
		WHERE p.producer_id = a.producer_id) AS host,
	a.file_id, f.path, a.file2_id,
	CASE WHEN a.file2_id IS NOT NULL
		THEN (SELECT g.path FROM file g WHERE g.file_id = a.file2_id)
		ELSE (SELECT CAST(value AS TEXT) FROM string WHERE string_id = a.text_id)
		END AS path2,
	a.directory, a.begin_ns, a.end_ns, a.seen_version_id, a.made_version_id,
	a.access_id AS seq_key
FROM access a JOIN file f USING (file_id)
WHERE a.op < 100;

CREATE VIEW v_producer AS
SELECT p.producer_id, b.host, p.kind, p.root, p.pid, b.boot AS boot_id, p.begin_ns,
	p.end_ns, p.records, p.lost
FROM producer p JOIN boot b USING (boot_id);

-- Its end is the next begin of a recording of that project on that host.
CREATE VIEW v_gap AS
SELECT p.producer_id, b.host, p.root, p.last_ns AS begin_ns,
	(SELECT min(q.begin_ns) FROM producer q JOIN boot c USING (boot_id)
		WHERE q.root = p.root AND q.begin_ns > p.begin_ns AND q.kind = p.kind
			AND c.host = b.host) AS end_ns
FROM producer p JOIN boot b USING (boot_id)
WHERE p.dead = 1 AND p.end_ns IS NULL;

CREATE VIEW v_stats AS
SELECT (SELECT count(*) FROM command) AS commands,
	(SELECT count(*) FROM session) AS sessions,
	(SELECT count(*) FROM access WHERE op < 100) AS accesses,
	(SELECT count(*) FROM file WHERE versions > 0) AS files,
	(SELECT count(*) FROM version WHERE carried = 0) AS versions,
	(SELECT count(DISTINCT object) FROM version) AS objects,
	(SELECT coalesce(sum(lost), 0) FROM producer) AS lost,
	(SELECT coalesce(sum(damaged), 0) FROM segment_position) AS damaged_bytes,
	(SELECT count(*) FROM process p JOIN task t USING (task_id)
		WHERE t.session_id IS NULL AND EXISTS
			(SELECT 1 FROM access a WHERE a.process_id = p.process_id)
	) AS unattributed;
