-- SPDX-License-Identifier: MIT
-- The tables of index.db, version 3. Only store/ names them; docs/index.md describes them.

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

-- One row. Processes after retry_task_id that found no session are looked at again.
CREATE TABLE state (retry_task_id INTEGER NOT NULL) STRICT;
INSERT INTO state VALUES (0);

CREATE TABLE boot (
	boot_id INTEGER PRIMARY KEY,
	host TEXT NOT NULL,
	boot TEXT NOT NULL,
	pid_max INTEGER NOT NULL DEFAULT 0,
	UNIQUE (host, boot)
) STRICT;

-- Real time minus boot time, as records of segments had it; one slot is 2^32 ns.
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
	dead INTEGER NOT NULL DEFAULT 0, -- it ended, without END as far as was read
	records INTEGER NOT NULL DEFAULT 0,
	lost INTEGER NOT NULL DEFAULT 0,
	last_seq INTEGER NOT NULL DEFAULT 0,
	lost_seq INTEGER NOT NULL DEFAULT 0, -- of its last LOST record
	UNIQUE (boot_id, instance)
) STRICT;
CREATE INDEX producer_root ON producer (root, begin_ns);
CREATE INDEX producer_open ON producer (dead) WHERE end_ns IS NULL;

-- Bytes that repeat: programs, arguments, roots. hash is XXH3-64 of value.
CREATE TABLE string (
	string_id INTEGER PRIMARY KEY,
	hash INTEGER NOT NULL,
	value BLOB NOT NULL
) STRICT;
CREATE INDEX string_hash ON string (hash);

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
	command_id INTEGER              -- the last begun
) STRICT;
CREATE INDEX session_shell ON session (boot_id, pid, start_ticks);

CREATE TABLE command (
	command_id INTEGER PRIMARY KEY,
	id TEXT NOT NULL UNIQUE,
	session_id INTEGER NOT NULL,
	number INTEGER NOT NULL,
	text TEXT NOT NULL,
	hidden INTEGER NOT NULL,
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
	-- counters, kept up by ingest
	n_read INTEGER NOT NULL DEFAULT 0,
	n_written INTEGER NOT NULL DEFAULT 0,
	n_skipped INTEGER NOT NULL DEFAULT 0,
	n_incomplete INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX command_begin ON command (begin_ns);
CREATE INDEX command_session ON command (session_id, begin_boot_ns);

-- A process by its identity; the links are those of its earliest record.
CREATE TABLE task (
	task_id INTEGER PRIMARY KEY,
	boot_id INTEGER NOT NULL,
	pid_namespace INTEGER NOT NULL,
	pid INTEGER NOT NULL,
	start_ticks INTEGER NOT NULL,
	ppid INTEGER NOT NULL,
	parent_start_ticks INTEGER NOT NULL,
	pgid INTEGER NOT NULL,
	sid INTEGER NOT NULL,
	seen_boot_ns INTEGER NOT NULL,
	marker TEXT NOT NULL,           -- of the first of its programs that has one
	session_id INTEGER,
	command_id INTEGER,
	UNIQUE (boot_id, pid, start_ticks, pid_namespace)
) STRICT;
CREATE INDEX task_start ON task (boot_id, start_ticks);
CREATE INDEX task_sid ON task (boot_id, sid);

-- A program that a process executed.
CREATE TABLE process (
	process_id INTEGER PRIMARY KEY,
	task_id INTEGER NOT NULL,
	exe_id INTEGER NOT NULL,
	argv_id INTEGER NOT NULL,
	cwd_id INTEGER NOT NULL,
	uid INTEGER NOT NULL,
	first_ns INTEGER NOT NULL,
	UNIQUE (task_id, exe_id, argv_id)
) STRICT;

-- What a producer's records call it.
CREATE TABLE process_ref (
	producer_id INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	process_id INTEGER NOT NULL,
	PRIMARY KEY (producer_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE file (
	file_id INTEGER PRIMARY KEY,
	path TEXT NOT NULL UNIQUE,
	root_id INTEGER NOT NULL,
	versions INTEGER NOT NULL,      -- the highest number given
	version_id INTEGER,             -- the latest version
	last_ns INTEGER NOT NULL,
	present INTEGER NOT NULL,
	directory INTEGER NOT NULL,
	-- when it was surely that version: struct shfs_known
	mtime_ns INTEGER NOT NULL DEFAULT 0,
	touched INTEGER NOT NULL DEFAULT 0,
	ctime_first_ns INTEGER NOT NULL DEFAULT 0,
	ctime_last_ns INTEGER NOT NULL DEFAULT 0,
	known_by INTEGER NOT NULL DEFAULT 0, -- producer_id; 0: none
	known_seq INTEGER NOT NULL DEFAULT 0,
	-- of a file that was seen with several names; 0: none
	dev INTEGER NOT NULL DEFAULT 0,
	ino INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX file_inode ON file (ino, dev) WHERE ino;

CREATE TABLE version (
	version_id INTEGER PRIMARY KEY,
	file_id INTEGER NOT NULL,
	n INTEGER NOT NULL,
	flags INTEGER NOT NULL,
	mode INTEGER NOT NULL,
	size INTEGER NOT NULL,
	mtime_ns INTEGER NOT NULL,
	ctime_ns INTEGER NOT NULL,
	phash INTEGER NOT NULL,
	object TEXT,
	source INTEGER NOT NULL,        -- enum shfs_version_source
	origin_version_id INTEGER,
	access_id INTEGER,              -- what made it
	time_ns INTEGER NOT NULL,
	carried INTEGER NOT NULL,
	UNIQUE (file_id, n)
) STRICT;
CREATE INDEX version_object ON version (object) WHERE object IS NOT NULL;
CREATE INDEX version_access ON version (access_id) WHERE access_id IS NOT NULL;
CREATE INDEX version_origin ON version (origin_version_id)
	WHERE origin_version_id IS NOT NULL;

CREATE TABLE access (
	access_id INTEGER PRIMARY KEY,
	producer_id INTEGER NOT NULL,
	op INTEGER NOT NULL,            -- 0: open; enum shfs_pathop; 100: see preimages
	flags INTEGER NOT NULL,
	is_read INTEGER NOT NULL,
	is_written INTEGER NOT NULL,
	directory INTEGER NOT NULL,
	process_id INTEGER,
	session_id INTEGER,
	command_id INTEGER,
	file_id INTEGER NOT NULL,
	file2_id INTEGER,
	text_id INTEGER,                -- what a symbolic link says
	begin_ns INTEGER NOT NULL,
	end_ns INTEGER NOT NULL,
	moment_boot_ns INTEGER NOT NULL, -- decides the command of a shell's own access
	seen_version_id INTEGER,
	made_version_id INTEGER,
	cut INTEGER NOT NULL,           -- contents that limits or rules kept out
	torn INTEGER NOT NULL           -- contents that are incomplete
) STRICT;
CREATE INDEX access_command ON access (command_id, file_id, is_read, is_written)
	WHERE command_id IS NOT NULL;
CREATE INDEX access_file ON access (file_id);
CREATE INDEX access_file2 ON access (file2_id, command_id) WHERE file2_id IS NOT NULL;
CREATE INDEX access_process ON access (process_id) WHERE process_id IS NOT NULL;
CREATE INDEX access_seen ON access (seen_version_id) WHERE seen_version_id IS NOT NULL;
CREATE INDEX access_made ON access (made_version_id) WHERE made_version_id IS NOT NULL;
