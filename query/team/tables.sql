-- SPDX-License-Identifier: MIT
-- A team's index: the schema "shfs" of a PostgreSQL database; docs/team.md describes it. A change
-- of it raises TEAM_VERSION in query/team/database.c.
CREATE SCHEMA shfs;
SET LOCAL search_path TO shfs, pg_temp;

CREATE TABLE schema (application text NOT NULL, version int NOT NULL);

-- A store that somebody has published. Two people may publish copies of one.
CREATE TABLE store (
	store_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	store text NOT NULL,            -- its id
	owner name NOT NULL DEFAULT current_user,
	host text NOT NULL,
	machine text NOT NULL,          -- of its tree (store/trees.h), as the host and the home
	home text NOT NULL,
	published_ns bigint,            -- when it became complete; NULL: it is not
	changes bigint NOT NULL DEFAULT 0, -- grows whenever a row of it changes
	UNIQUE (owner, store)
);

-- A project of a store.
CREATE TABLE tree (
	tree_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	store_id int NOT NULL,
	root text NOT NULL,
	UNIQUE (store_id, root)
);

-- What its owner lets another role see: a tree, or '': all; role 'public': everybody.
CREATE TABLE share (
	owner name NOT NULL DEFAULT current_user,
	root text NOT NULL,
	role name NOT NULL,
	PRIMARY KEY (owner, root, role)
);

-- Rows are replaced by pieces: those of a table whose key is from first to last.
CREATE TABLE piece (
	store_id int NOT NULL,
	name text NOT NULL,
	first bigint NOT NULL,
	last bigint NOT NULL,
	hash bigint NOT NULL,
	rows int NOT NULL,
	PRIMARY KEY (store_id, name, first)
);

-- The tables of rows: as the local index's views; tree_id: the project that the row is of, 0: none;
-- escaped: a bit for each column behind store_id whose text is not UTF-8 (publish.c), or NULL.
CREATE TABLE session (
	store_id int NOT NULL, session_id bigint NOT NULL, id text NOT NULL, host text, boot_id text,
	pid bigint, start_ticks bigint, shell text, tty text, cwd text, begin_ns bigint,
	end_ns bigint, commands bigint, invoker text, caller_id bigint,
	origin text, tree_id int NOT NULL, escaped int
);
CREATE TABLE command (
	store_id int NOT NULL, command_id bigint NOT NULL, id text NOT NULL, session_id bigint,
	session text, host text, number bigint, text text, hidden bigint, redacted bigint, cwd text,
	begin_ns bigint, end_ns bigint, status bigint, invoker text, shell text, process_id bigint,
	user_us bigint, system_us bigint, max_rss_kib bigint, n_accesses bigint, n_read bigint,
	n_written bigint, n_skipped bigint, n_incomplete bigint, tree_id int NOT NULL, escaped int
);
CREATE TABLE definition (
	store_id int NOT NULL, command_id bigint NOT NULL, position bigint NOT NULL,
	definition bytea, escaped int
);
CREATE TABLE process (
	store_id int NOT NULL, process_id bigint NOT NULL, host text, pid bigint, start_ticks bigint,
	ppid bigint, pgid bigint, sid bigint, uid bigint, exe text, cwd text, argv bytea,
	streams bytea, environment bytea, program_id bigint, command_id bigint, session_id bigint,
	first_ns bigint, shell bigint, n_accesses bigint, outside bigint, tree_id int NOT NULL,
	escaped int
);
CREATE TABLE exit (
	store_id int NOT NULL, process_id bigint NOT NULL, command_id bigint, status bigint,
	user_us bigint, system_us bigint, max_rss_kib bigint, escaped int
);
CREATE TABLE program (
	store_id int NOT NULL, program_id bigint NOT NULL, host text, boot_id text, path text,
	since_ns bigint, process_id bigint, size bigint, mtime_ns bigint, phash bigint,
	manager text, package text, version text, escaped int
);
CREATE TABLE lookup (
	store_id int NOT NULL, lookup_id bigint NOT NULL, producer_id bigint, root text,
	begin_ns bigint, last_ns bigint, process_id bigint, command_id bigint, session_id bigint,
	list bytea, tree_id int NOT NULL, escaped int
);
CREATE TABLE file (
	store_id int NOT NULL, file_id bigint NOT NULL, path text NOT NULL, dir text NOT NULL,
	name text NOT NULL, name_key bigint, root text, versions bigint, present bigint,
	last_ns bigint, directory bigint, tree_id int NOT NULL, escaped int
);
CREATE TABLE version (
	store_id int NOT NULL, version_id bigint NOT NULL, file_id bigint NOT NULL,
	n bigint NOT NULL, object text, flags bigint, size bigint, mode bigint, mtime_ns bigint,
	phash bigint, source text, origin_version_id bigint, access_id bigint, process_id bigint,
	command_id bigint, time_ns bigint, carried bigint, again bigint, tree_id int NOT NULL,
	escaped int
);
CREATE TABLE access (
	store_id int NOT NULL, access_id bigint NOT NULL, op text, is_open bigint, flags bigint,
	is_read bigint, is_written bigint, process_id bigint, command_id bigint, session_id bigint,
	file_id bigint, file2_id bigint, text bytea, directory bigint, begin_ns bigint,
	end_ns bigint, seen_n bigint, seen_flawed bigint, made_n bigint, seq_key bigint,
	tree_id int NOT NULL,
	tree2_id int,                   -- of file2_id, if that is of another one
	escaped int
);
CREATE TABLE former (
	store_id int NOT NULL, access_id bigint NOT NULL, n bigint, file_id bigint, data bytea,
	escaped int
);
-- command_id: of command; NULL: the note is about a version.
CREATE TABLE note (
	store_id int NOT NULL, note_id bigint NOT NULL, command text NOT NULL, path text NOT NULL,
	version_ns bigint NOT NULL, tag text NOT NULL, text text NOT NULL, time_ns bigint NOT NULL,
	host text, command_id bigint, tree_id int NOT NULL, escaped int
);
CREATE TABLE producer (
	store_id int NOT NULL, producer_id bigint NOT NULL, host text, kind text, root text,
	pid bigint, boot_id text, begin_ns bigint, end_ns bigint, dead bigint, records bigint,
	lost bigint, tree_id int NOT NULL, escaped int
);
CREATE TABLE gap (
	store_id int NOT NULL, producer_id bigint NOT NULL, host text, root text, begin_ns bigint,
	end_ns bigint, tree_id int NOT NULL, escaped int
);
CREATE TABLE stats (
	store_id int NOT NULL, one bigint NOT NULL, commands bigint, sessions bigint,
	accesses bigint, files bigint, versions bigint, objects bigint, lost bigint,
	damaged_bytes bigint, unattributed bigint, escaped int
);
CREATE TABLE left_out (
	store_id int NOT NULL, flags bigint NOT NULL, versions bigint, escaped int
);

CREATE INDEX ON session (store_id, session_id);
CREATE INDEX ON command (store_id, command_id);
CREATE INDEX ON command (store_id, session_id);
CREATE INDEX ON command (id);
CREATE INDEX ON command (begin_ns);
CREATE INDEX ON definition (store_id, command_id);
CREATE INDEX ON process (store_id, process_id);
CREATE INDEX ON process (store_id, command_id);
CREATE INDEX ON process (store_id, program_id);
CREATE INDEX ON exit (store_id, process_id);
CREATE INDEX ON program (store_id, program_id);
CREATE INDEX ON lookup (store_id, lookup_id);
CREATE INDEX ON file (store_id, file_id);
CREATE INDEX ON file (path);
CREATE INDEX ON version (store_id, version_id);
CREATE INDEX ON version (object);
CREATE INDEX ON version (size, phash);
CREATE INDEX ON access (store_id, access_id);
CREATE INDEX ON access (store_id, command_id);
CREATE INDEX ON access (store_id, file_id);
CREATE INDEX ON former (store_id, access_id);
CREATE INDEX ON note (store_id, note_id);
CREATE INDEX ON note (store_id, command_id);
CREATE INDEX ON producer (store_id, producer_id);
CREATE INDEX ON gap (store_id, producer_id);
CREATE INDEX ON stats (store_id);
CREATE INDEX ON left_out (store_id);
