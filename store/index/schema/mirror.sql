-- SPDX-License-Identifier: MIT
-- The tables of a mirror (store/index/mirror.h), and views as those of views.sql. Numbers are those of
-- the database, plus the base of their store; those of accesses and versions plus base * 2^32. A change
-- raises MIRROR_VERSION in store/index/mirror.c.

-- The stores of which something is here, with a room of numbers each.
CREATE TABLE m_store (
	store_id INTEGER PRIMARY KEY,
	tree TEXT NOT NULL,             -- the name before its paths; "": none
	base INTEGER NOT NULL,
	room INTEGER NOT NULL,
	mark TEXT NOT NULL              -- what the database had of it
) STRICT;

-- The pieces of stores that are here as a whole (query/team/pieces.h).
CREATE TABLE m_piece (
	store_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	first INTEGER NOT NULL,
	last INTEGER NOT NULL,
	hash INTEGER NOT NULL,
	rows INTEGER NOT NULL,
	PRIMARY KEY (store_id, name, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE m_session (
	session_id INTEGER PRIMARY KEY, id TEXT, host TEXT, boot_id TEXT, pid INTEGER,
	start_ticks INTEGER, shell TEXT, tty TEXT, cwd TEXT, begin_ns INTEGER, end_ns INTEGER,
	commands INTEGER, invoker TEXT, caller_id INTEGER, origin TEXT
) STRICT;
CREATE INDEX m_session_id ON m_session (id);
CREATE INDEX m_session_start ON m_session (start_ticks);

CREATE TABLE m_command (
	command_id INTEGER PRIMARY KEY, id TEXT, session_id INTEGER, session TEXT, host TEXT,
	number INTEGER, text TEXT, hidden INTEGER, redacted INTEGER, cwd TEXT, begin_ns INTEGER,
	end_ns INTEGER, status INTEGER, invoker TEXT, shell TEXT, process_id INTEGER,
	user_us INTEGER, system_us INTEGER, max_rss_kib INTEGER, n_accesses INTEGER,
	n_read INTEGER, n_written INTEGER, n_skipped INTEGER, n_incomplete INTEGER
) STRICT;
CREATE INDEX m_command_id ON m_command (id);
CREATE INDEX m_command_begin ON m_command (begin_ns);
CREATE INDEX m_command_cwd ON m_command (cwd);
CREATE INDEX m_command_session ON m_command (session_id);

CREATE TABLE m_definition (
	command_id INTEGER NOT NULL, position INTEGER NOT NULL, definition TEXT,
	PRIMARY KEY (command_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE m_process (
	process_id INTEGER PRIMARY KEY, host TEXT, pid INTEGER, start_ticks INTEGER, ppid INTEGER,
	pgid INTEGER, sid INTEGER, uid INTEGER, exe TEXT, cwd TEXT, argv TEXT, streams TEXT,
	environment TEXT, program_id INTEGER, command_id INTEGER, session_id INTEGER,
	first_ns INTEGER, shell INTEGER, n_accesses INTEGER, outside INTEGER
) STRICT;
CREATE INDEX m_process_command ON m_process (command_id);
CREATE INDEX m_process_exe ON m_process (exe);

CREATE TABLE m_exit (
	process_id INTEGER PRIMARY KEY, command_id INTEGER, status INTEGER, user_us INTEGER,
	system_us INTEGER, max_rss_kib INTEGER
) STRICT;
CREATE INDEX m_exit_command ON m_exit (command_id);

CREATE TABLE m_program (
	program_id INTEGER PRIMARY KEY, host TEXT, boot_id TEXT, path TEXT, since_ns INTEGER,
	process_id INTEGER, size INTEGER, mtime_ns INTEGER, phash INTEGER, manager TEXT,
	package TEXT, version TEXT
) STRICT;
CREATE INDEX m_program_path ON m_program (path);

CREATE TABLE m_lookup (
	lookup_id INTEGER PRIMARY KEY, producer_id INTEGER, root TEXT, begin_ns INTEGER,
	last_ns INTEGER, process_id INTEGER, command_id INTEGER, session_id INTEGER, list BLOB
) STRICT;
CREATE INDEX m_lookup_producer ON m_lookup (producer_id);

-- versions is NULL for a path without one.
CREATE TABLE m_file (
	file_id INTEGER PRIMARY KEY, dir TEXT, name TEXT, name_key INTEGER, root TEXT,
	versions INTEGER, present INTEGER, last_ns INTEGER, directory INTEGER
) STRICT;
CREATE INDEX m_file_name ON m_file (dir, name_key);

CREATE TABLE m_version (
	version_id INTEGER PRIMARY KEY, file_id INTEGER, n INTEGER, object TEXT, flags INTEGER,
	size INTEGER, mode INTEGER, mtime_ns INTEGER, phash INTEGER, source TEXT,
	origin_version_id INTEGER, access_id INTEGER, process_id INTEGER, command_id INTEGER,
	time_ns INTEGER, carried INTEGER, again INTEGER
) STRICT;
CREATE INDEX m_version_file ON m_version (file_id, n);
CREATE INDEX m_version_object ON m_version (object_key(object));
CREATE INDEX m_version_origin ON m_version (origin_version_id)
	WHERE origin_version_id IS NOT NULL;

CREATE TABLE m_access (
	access_id INTEGER PRIMARY KEY, op INTEGER, is_open INTEGER, flags INTEGER, is_read INTEGER,
	is_written INTEGER, process_id INTEGER, command_id INTEGER, session_id INTEGER,
	file_id INTEGER, file2_id INTEGER, text TEXT, directory INTEGER, begin_ns INTEGER,
	end_ns INTEGER, seen_n INTEGER, seen_flawed INTEGER, made_n INTEGER, seq_key INTEGER
) STRICT;
CREATE INDEX m_access_process ON m_access (process_id);
CREATE INDEX m_access_command ON m_access (command_id);
CREATE INDEX m_access_file ON m_access (file_id, is_open);
CREATE INDEX m_access_file2 ON m_access (file2_id) WHERE file2_id IS NOT NULL;

CREATE TABLE m_former (access_id INTEGER PRIMARY KEY, n INTEGER, file_id INTEGER, data BLOB) STRICT;

CREATE TABLE m_producer (
	producer_id INTEGER PRIMARY KEY, host TEXT, kind TEXT, root TEXT, pid INTEGER, boot_id TEXT,
	begin_ns INTEGER, end_ns INTEGER, dead INTEGER, records INTEGER, lost INTEGER
) STRICT;

CREATE TABLE m_gap (
	producer_id INTEGER PRIMARY KEY, host TEXT, root TEXT, begin_ns INTEGER, end_ns INTEGER
) STRICT;

-- command_id: of command; NULL: the note is about a version.
CREATE TABLE m_note (
	note_id INTEGER PRIMARY KEY, command TEXT NOT NULL, path TEXT NOT NULL,
	version_ns INTEGER NOT NULL, tag TEXT NOT NULL, text TEXT NOT NULL,
	time_ns INTEGER NOT NULL, host TEXT, command_id INTEGER
) STRICT;
CREATE INDEX m_note_target ON m_note (command_id, command, path, version_ns, tag);
CREATE INDEX m_note_path ON m_note (path, version_ns);

-- A session may have begun in a command of another store.
CREATE VIEW v_session AS
SELECT session_id, id, host, boot_id, pid, start_ticks, shell, tty, cwd, begin_ns, end_ns, commands,
	invoker, session_caller(session_id) AS caller_id, origin
FROM m_session;
-- Nobody gives notes to commands of another's store. Two stores may have commands of one id, as
-- copies have, or as somebody says: so each note is of the command of its store, by its number.
CREATE VIEW own_note AS
SELECT n.* FROM m_note n
WHERE n.command = '' OR EXISTS (SELECT 1 FROM m_command c WHERE c.command_id = n.command_id
	AND c.id = n.command);
CREATE VIEW v_note AS
SELECT n.note_id, n.command, n.path, n.version_ns, n.tag, n.text, n.time_ns, n.host, n.command_id
FROM own_note n
WHERE NOT EXISTS (SELECT 1 FROM own_note m WHERE m.command_id IS n.command_id
	AND m.command = n.command AND m.path = n.path AND m.version_ns = n.version_ns
	AND m.tag = n.tag AND (m.time_ns, m.note_id) > (n.time_ns, n.note_id));
CREATE VIEW v_command AS
SELECT c.*, EXISTS (SELECT 1 FROM v_note n WHERE n.command_id = c.command_id
	AND n.command = c.id) AS noted
FROM m_command c;
CREATE VIEW v_definition AS SELECT * FROM m_definition;
CREATE VIEW v_process AS SELECT * FROM m_process;
CREATE VIEW v_loose_process AS SELECT * FROM m_process WHERE command_id IS NULL;
CREATE VIEW v_exit AS SELECT * FROM m_exit;
CREATE VIEW v_program AS SELECT * FROM m_program;
CREATE VIEW v_lookup AS SELECT * FROM m_lookup;
CREATE VIEW v_former AS SELECT * FROM m_former;
CREATE VIEW v_producer AS SELECT * FROM m_producer;
CREATE VIEW v_gap AS SELECT * FROM m_gap;

CREATE VIEW v_path AS
SELECT file_id, dir || '/' || name AS path, dir, name, name_key FROM m_file;

CREATE VIEW v_file AS
SELECT file_id, dir || '/' || name AS path, dir, name, name_key, root, versions, present, last_ns,
	directory
FROM m_file WHERE versions IS NOT NULL;

CREATE VIEW v_version AS
SELECT v.version_id, v.file_id,
	(SELECT f.dir || '/' || f.name FROM m_file f WHERE f.file_id = v.file_id) AS path,
	v.n, v.object, object_key(v.object) AS object_key, v.flags, v.size, v.mode, v.mtime_ns,
	v.phash, v.source, v.origin_version_id, v.access_id, v.process_id, v.command_id, v.time_ns,
	v.carried, v.again
FROM m_version v;

CREATE VIEW v_access AS
SELECT a.access_id, op_name(a.op) AS op, a.is_open, a.flags, a.is_read, a.is_written, a.process_id,
	a.command_id, a.session_id,
	(SELECT p.host FROM m_process p WHERE p.process_id = a.process_id) AS host, a.file_id,
	(SELECT f.dir || '/' || f.name FROM m_file f WHERE f.file_id = a.file_id) AS path,
	a.file2_id,
	CASE WHEN a.file2_id IS NOT NULL
		THEN (SELECT f.dir || '/' || f.name FROM m_file f WHERE f.file_id = a.file2_id)
		ELSE a.text END AS path2,
	a.directory, a.begin_ns, a.end_ns, a.seen_n, a.seen_flawed,
	a.file_id << 32 | a.seen_n AS seen_version_id, a.made_n,
	coalesce(a.file2_id, a.file_id) AS made_file_id,
	coalesce(a.file2_id, a.file_id) << 32 | a.made_n AS made_version_id, a.seq_key
FROM m_access a;
