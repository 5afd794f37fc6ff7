-- SPDX-License-Identifier: MIT
-- The tables of index.db. Only store/ names them; docs/index.md describes them. A change of
-- them, or of what ingest makes of the journal, raises SCHEMA_VERSION in store/index/index.c.

-- How far each segment and hook log has been read; written with the rows it led to.
CREATE TABLE segment_position (
	host TEXT NOT NULL,
	name TEXT NOT NULL,
	offset INTEGER NOT NULL,
	damaged INTEGER NOT NULL,      -- bytes skipped
	done INTEGER NOT NULL,         -- sealed and read to its end
	owner_id INTEGER,              -- producer_id, or session_id for a hook log
	PRIMARY KEY (host, name)
) STRICT, WITHOUT ROWID;

-- One row. Processes after retry_task_id that found no session are attributed again, if
-- retry_due; ingest keeps the totals up to date.
CREATE TABLE state (
	retry_task_id INTEGER NOT NULL,
	accesses INTEGER NOT NULL,      -- those that views show
	seq INTEGER NOT NULL,           -- of the last access
	files INTEGER NOT NULL,         -- with versions
	versions INTEGER NOT NULL,      -- not counting carried ones
	objects INTEGER NOT NULL,       -- distinct
	retry_due INTEGER NOT NULL
) STRICT;
INSERT INTO state VALUES (0, 0, 0, 0, 0, 0, 0);

-- Versions without an object, not counting carried ones, by their flags.
CREATE TABLE left_out (flags INTEGER PRIMARY KEY, versions INTEGER NOT NULL) STRICT;

CREATE TABLE boot (
	boot_id INTEGER PRIMARY KEY,
	host TEXT NOT NULL,
	boot TEXT NOT NULL,
	tree TEXT NOT NULL,             -- what it recorded is of (store/trees.h); "": this one
	pid_max INTEGER NOT NULL DEFAULT 0,
	UNIQUE (host, boot)
) STRICT;

-- Real time minus boot time in records of segments; one slot is 2^32 ns.
CREATE TABLE clock (
	boot_id INTEGER NOT NULL,
	slot INTEGER NOT NULL,
	offset_ns INTEGER NOT NULL,
	PRIMARY KEY (boot_id, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE producer (
	producer_id INTEGER PRIMARY KEY,
	boot_id INTEGER NOT NULL,
	instance BLOB NOT NULL,
	kind TEXT NOT NULL,
	root TEXT NOT NULL,
	software TEXT NOT NULL,
	pid_namespace INTEGER NOT NULL,
	pid INTEGER NOT NULL,
	start_ticks INTEGER NOT NULL,
	uid INTEGER NOT NULL,
	begin_ns INTEGER NOT NULL,
	last_ns INTEGER NOT NULL,       -- of its last record
	end_ns INTEGER,                 -- NULL: no END record
	dead INTEGER NOT NULL DEFAULT 0, -- 1: it ended, without END; 2: it was archived before (archived.h)
	records INTEGER NOT NULL DEFAULT 0,
	lost INTEGER NOT NULL DEFAULT 0,
	last_seq INTEGER NOT NULL DEFAULT 0,
	lost_seq INTEGER NOT NULL DEFAULT 0, -- of its last LOST record
	UNIQUE (boot_id, instance)
) STRICT;
CREATE INDEX producer_root ON producer (root, begin_ns);
CREATE INDEX producer_pid ON producer (boot_id, pid);
CREATE INDEX producer_open ON producer (dead) WHERE end_ns IS NULL;

-- Strings that repeat: programs, arguments, roots. hash is the lower half of their XXH3-64.
CREATE TABLE string (
	string_id INTEGER PRIMARY KEY,
	hash INTEGER NOT NULL,
	base_id INTEGER,                -- the base with which value is packed (string.c)
	value BLOB NOT NULL
) STRICT;
CREATE INDEX string_hash ON string (hash);
-- The present base of strings that begin with these four bytes.
CREATE TABLE string_base (key INTEGER PRIMARY KEY, string_id INTEGER NOT NULL) STRICT;

CREATE TABLE session (
	session_id INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	boot_id INTEGER NOT NULL,
	pid_namespace INTEGER NOT NULL, -- 0: unknown
	pid INTEGER NOT NULL,
	start_ticks INTEGER NOT NULL,
	shell TEXT NOT NULL,
	tty TEXT NOT NULL,
	cwd TEXT NOT NULL,
	begin_ns INTEGER NOT NULL,
	end_ns INTEGER NOT NULL,
	commands INTEGER NOT NULL DEFAULT 0,
	command_id INTEGER,             -- of the last BEGIN
	-- of a program that runs commands for somebody (invoker.c), else '' and NULL
	invoker TEXT NOT NULL DEFAULT '', -- kind and name: "agent claude"; pid 0: a job
	task_id INTEGER,                -- its process, if that is known; of a job one of it
	caller_id INTEGER,              -- the command that submitted the job
	origin_id INTEGER               -- a string: where it began (store/journal/origin.h)
) STRICT;
CREATE INDEX session_shell ON session (boot_id, pid, start_ticks);

CREATE TABLE command (
	command_id INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	session_id INTEGER NOT NULL,
	number INTEGER NOT NULL,
	text TEXT NOT NULL,
	hidden INTEGER NOT NULL,
	redacted INTEGER NOT NULL,      -- text is redacted
	cwd TEXT NOT NULL,
	status INTEGER,
	-- the boundaries, as the hook wrote them: clocks, resolution, last pid (0 unknown)
	begin_ns INTEGER NOT NULL,
	begin_boot_ns INTEGER NOT NULL,
	begin_resolution_ns INTEGER NOT NULL,
	begin_pid INTEGER NOT NULL,
	end_ns INTEGER,
	end_boot_ns INTEGER,            -- NULL: no finish record
	end_resolution_ns INTEGER,
	end_pid INTEGER,
	user_us INTEGER,                -- CPU time, with system_us; NULL: not known
	system_us INTEGER,
	max_rss_kib INTEGER,
	-- of an invoker (invoker.c): its first process, whose pid is begin_pid; number is 0, and
	-- there is no end. Else NULL
	task_id INTEGER,
	shell TEXT                      -- that text is for
) STRICT;
CREATE INDEX command_begin ON command (begin_ns);
CREATE INDEX command_cwd ON command (cwd);
CREATE INDEX command_session ON command (session_id, begin_boot_ns);
CREATE INDEX command_number ON command (session_id, number);
CREATE INDEX command_task ON command (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX command_of_invoker ON command (begin_pid) WHERE task_id IS NOT NULL;

-- What words stood for in a shell. seq: of the record in its hook log; the last one counts.
CREATE TABLE definition (
	session_id INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	string_id INTEGER NOT NULL,     -- kind, kept, name and NUL, body
	PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

-- What a command used of them, in this order.
CREATE TABLE command_definition (
	command_id INTEGER NOT NULL,
	position INTEGER NOT NULL,
	string_id INTEGER,              -- NULL: unknown, there was more
	PRIMARY KEY (command_id, position)
) STRICT, WITHOUT ROWID;

-- A process; its parent, group and session are those of its earliest record. task_id is the
-- process_id of its first program run.
CREATE TABLE task (
	task_id INTEGER PRIMARY KEY,
	boot_id INTEGER NOT NULL,
	pid_namespace INTEGER NOT NULL, -- xor the initial one of a host
	pid INTEGER NOT NULL,
	start_ticks INTEGER NOT NULL,
	ppid INTEGER NOT NULL,
	parent_start_ticks INTEGER,     -- before start_ticks; NULL: its parent was gone
	pgid INTEGER NOT NULL,          -- minus pid
	sid INTEGER NOT NULL,
	seen_ns INTEGER NOT NULL,       -- its earliest record, after its begin
	marker_id INTEGER,              -- a string: that of its first program with one
	mark_id INTEGER,                -- a string: its marks, likewise
	origin_id INTEGER,              -- a string: its origin (store/journal/origin.h), likewise
	role INTEGER NOT NULL,          -- enum shfs_role, of all its programs
	shell INTEGER NOT NULL,         -- 1: a registered shell, see shell_access
	session_id INTEGER,
	command_id INTEGER
) STRICT;
CREATE INDEX task_start ON task (boot_id, start_ticks);
CREATE INDEX task_shell ON task (boot_id, sid) WHERE shell = 1;
CREATE INDEX task_command ON task (command_id) WHERE command_id IS NOT NULL;
CREATE INDEX task_nobody ON task (boot_id) WHERE command_id IS NULL;

-- What a process has used, once it had ended: where the kernel told.
CREATE TABLE task_exit (
	task_id INTEGER PRIMARY KEY,
	status INTEGER NOT NULL,        -- as wait(2) gives it
	user_us INTEGER NOT NULL,
	system_us INTEGER NOT NULL,
	max_rss_kib INTEGER NOT NULL
) STRICT;

-- A program run. task_id is NULL if it is the first one of its process.
CREATE TABLE process (
	process_id INTEGER PRIMARY KEY,
	task_id INTEGER,
	exe_id INTEGER NOT NULL,
	argv_id INTEGER NOT NULL,
	cwd_id INTEGER NOT NULL,
	streams_id INTEGER NOT NULL,
	environment_id INTEGER NOT NULL,
	uid INTEGER NOT NULL,
	outside INTEGER NOT NULL,       -- its words may name files outside of the project
	first_ns INTEGER NOT NULL,
	accesses INTEGER NOT NULL       -- number of the last one
) STRICT;
CREATE INDEX process_task ON process (task_id) WHERE task_id IS NOT NULL;
-- The process of accesses whose process is unknown.
INSERT INTO process VALUES (0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0);

-- What software a path was from since_ns on, in one boot. process_id is the first process
-- that was seen to execute it.
CREATE TABLE program (
	program_id INTEGER PRIMARY KEY,
	boot_id INTEGER NOT NULL,
	path_id INTEGER NOT NULL,       -- a string
	since_ns INTEGER NOT NULL,
	process_id INTEGER NOT NULL,    -- 0: unknown
	size INTEGER NOT NULL,
	mtime_ns INTEGER NOT NULL,
	phash INTEGER NOT NULL,         -- 0: not known
	manager TEXT NOT NULL,          -- "": no package has it
	package TEXT NOT NULL,
	version TEXT NOT NULL
) STRICT;
CREATE INDEX program_path ON program (path_id, boot_id, since_ns);

-- Names that a process looked up, or an earlier one of the same producer: a producer tells
-- each name once. list: common/record.h; its paths are below the producer's root.
CREATE TABLE lookup (
	lookup_id INTEGER PRIMARY KEY,
	producer_id INTEGER NOT NULL,
	process_id INTEGER NOT NULL,    -- 0: unknown
	list BLOB NOT NULL
) STRICT;
CREATE INDEX lookup_producer ON lookup (producer_id);

-- The names of processes in the records of a producer without END.
CREATE TABLE process_ref (
	producer_id INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	process_id INTEGER NOT NULL,
	PRIMARY KEY (producer_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE directory (
	directory_id INTEGER PRIMARY KEY,
	path TEXT NOT NULL UNIQUE,      -- "" is the root
	root_id INTEGER NOT NULL
) STRICT;

-- A path.
CREATE TABLE file (
	file_id INTEGER PRIMARY KEY,
	directory_id INTEGER NOT NULL,
	name TEXT NOT NULL,
	state INTEGER NOT NULL,         -- 1 gone, 2 directory, 4 touched; 8 * the highest n
	data BLOB,                      -- root, times, producer that knows it (file.c); NULL: defaults
	ino INTEGER                     -- of a file that was seen with several names
) STRICT;
CREATE INDEX file_name ON file (directory_id, name_key(name));
CREATE INDEX file_inode ON file (ino) WHERE ino IS NOT NULL;

-- A version of a file. Its version_id is file_id * 2^32 + n.
CREATE TABLE version (
	file_id INTEGER NOT NULL,
	n INTEGER NOT NULL,
	data BLOB NOT NULL,             -- all other fields (version-row.c)
	object BLOB,                    -- its hash, and 4 more bytes if contents collide
	origin_version_id INTEGER,
	PRIMARY KEY (file_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX version_object ON version (substr(object, 1, 3))
	WHERE substr(object, 1, 3) IS NOT NULL;
CREATE INDEX version_origin ON version (origin_version_id)
	WHERE origin_version_id IS NOT NULL;

-- Accesses of one process, packed (chunk.c): chunk_id is process_id * 2^32 + the number of
-- the first. An access_id is made likewise.
CREATE TABLE chunk (chunk_id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;

-- The owner of each access of a registered shell, by the time of the access.
CREATE TABLE shell_access (
	access_id INTEGER PRIMARY KEY,
	session_id INTEGER,
	command_id INTEGER
) STRICT;
CREATE INDEX shell_access_command ON shell_access (command_id)
	WHERE command_id IS NOT NULL;

-- What an access did away with. n: the version that was at its path (at path2 for a rename,
-- whose victim it is), or file_id * 2^32 + n of another path's, from where its file was moved
-- while it was written; 0: none, or not known. data: struct shfs_former, packed.
CREATE TABLE former (
	access_id INTEGER PRIMARY KEY,
	n INTEGER NOT NULL,
	data BLOB NOT NULL
) STRICT;

-- The accesses of each file, in sorted runs of pages (byfile.c).
CREATE TABLE run (run_id INTEGER PRIMARY KEY, entries INTEGER NOT NULL) STRICT;
CREATE TABLE run_page (page_id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;

-- Notes and tags, also those that were replaced or removed: v_note has what counts. command:
-- the id of one, or '': then it is about the version of path that was made at version_ns.
CREATE TABLE note (
	note_id INTEGER PRIMARY KEY,
	producer_id INTEGER NOT NULL,
	origin TEXT NOT NULL,           -- the producer's instance
	seq INTEGER NOT NULL,
	command TEXT NOT NULL,
	path TEXT NOT NULL,
	version_ns INTEGER NOT NULL,
	tag TEXT NOT NULL,              -- '': text is the note
	text TEXT NOT NULL,
	removed INTEGER NOT NULL,
	time_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX note_target ON note (command, path, version_ns, tag);
CREATE INDEX note_path ON note (path, version_ns);
