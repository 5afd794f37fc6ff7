-- SPDX-License-Identifier: MIT
-- Who sees what. Each policy asks tables that have policies of their own: a share is seen by its
-- owner and by those whom it names, a store and a tree by those who see a share of it, and a row
-- by those who see its tree. What a table's owner sees is no more (FORCE).
GRANT USAGE ON SCHEMA shfs TO PUBLIC;

CREATE VIEW own_store WITH (security_invoker) AS
SELECT store_id FROM store WHERE owner = current_user;

DO $do$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['store', 'tree', 'share', 'piece', 'session', 'command',
		'definition', 'process', 'exit', 'program', 'lookup', 'file', 'version', 'access',
		'former', 'note', 'producer', 'gap', 'stats', 'left_out']
	LOOP
		EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
		EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
		EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO PUBLIC', t);
		IF t NOT IN ('store', 'share') THEN
			EXECUTE format('CREATE POLICY own ON %I USING'
				' (store_id IN (SELECT store_id FROM own_store))', t);
		END IF;
	END LOOP;
END
$do$;
GRANT SELECT ON schema, own_store TO PUBLIC;

CREATE POLICY own ON store USING (owner = current_user);
CREATE POLICY own ON share USING (owner = current_user);
CREATE POLICY named ON share FOR SELECT USING (role = 'public' OR role IN
	(SELECT rolname FROM pg_roles WHERE pg_has_role(current_user, oid, 'USAGE')));
CREATE POLICY shared ON store FOR SELECT USING (owner IN (SELECT owner FROM share));
CREATE POLICY shared ON tree FOR SELECT USING (EXISTS (SELECT FROM store s JOIN share h USING (owner)
	WHERE s.store_id = tree.store_id AND h.root IN ('', tree.root)));

-- Stores that this role sees as a whole.
CREATE VIEW whole_store WITH (security_invoker) AS
SELECT store_id FROM store s WHERE owner = current_user
	OR EXISTS (SELECT FROM share h WHERE h.owner = s.owner AND h.root = '');
GRANT SELECT ON whole_store TO PUBLIC;

DO $do$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY ARRAY['piece', 'session', 'command', 'definition', 'process', 'exit',
		'program', 'lookup', 'file', 'version', 'access', 'former', 'note', 'producer',
		'gap', 'stats', 'left_out']
	LOOP
		EXECUTE format('CREATE POLICY whole ON %I FOR SELECT USING'
			' (store_id IN (SELECT store_id FROM whole_store))', t);
	END LOOP;
	-- what lies in a tree
	FOREACH t IN ARRAY ARRAY['lookup', 'file', 'version', 'producer', 'gap']
	LOOP
		EXECUTE format('CREATE POLICY tree ON %I FOR SELECT USING'
			' (tree_id IN (SELECT tree_id FROM tree))', t);
	END LOOP;
END
$do$;
CREATE POLICY tree ON access FOR SELECT USING (tree_id IN (SELECT tree_id FROM tree)
	AND (tree2_id IS NULL OR tree2_id IN (SELECT tree_id FROM tree)));

-- Who sees what a command did in a tree sees its line; likewise for the other rows of commands.
CREATE POLICY tree ON command FOR SELECT USING (EXISTS (SELECT FROM access a
	WHERE a.store_id = command.store_id AND a.command_id = command.command_id));
CREATE POLICY tree ON process FOR SELECT USING (EXISTS (SELECT FROM access a
	WHERE a.store_id = process.store_id AND a.access_id >= process.process_id << 32
		AND a.access_id < (process.process_id + 1) << 32));
CREATE POLICY tree ON session FOR SELECT USING (EXISTS (SELECT FROM command c
	WHERE c.store_id = session.store_id AND c.session_id = session.session_id));
CREATE POLICY tree ON definition FOR SELECT USING (EXISTS (SELECT FROM command c
	WHERE c.store_id = definition.store_id AND c.command_id = definition.command_id));
CREATE POLICY tree ON exit FOR SELECT USING (EXISTS (SELECT FROM process p
	WHERE p.store_id = exit.store_id AND p.process_id = exit.process_id));
CREATE POLICY tree ON program FOR SELECT USING (EXISTS (SELECT FROM process p
	WHERE p.store_id = program.store_id AND p.program_id = program.program_id));
CREATE POLICY tree ON note FOR SELECT USING (CASE WHEN command_id IS NULL
	THEN tree_id IN (SELECT tree_id FROM tree)
	ELSE EXISTS (SELECT FROM command c WHERE c.store_id = note.store_id
		AND c.command_id = note.command_id) END);
CREATE POLICY tree ON former FOR SELECT USING (EXISTS (SELECT FROM access a
	WHERE a.store_id = former.store_id AND a.access_id = former.access_id));
