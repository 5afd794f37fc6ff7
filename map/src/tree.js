// SPDX-License-Identifier: MIT
// Directories and files as the rows of a tree that folds, and how much happened in each of them when.

const OPEN_ROWS = 40, // rows that are open before anything was clicked
	FILES_MAX = 100, // files of one directory, before one asks for more
	MANY_USES = 4096; // that are counted for each command, and not one by one

export class Tree {
	constructor(model) {
		Object.assign(this, { model, folds: new Map(), limits: new Map(), written: true });
		this.build();
	}

	// Makes the directories of all paths. What was folded stays so.
	build() {
		const { model } = this,
			{ paths, root } = model;

		this.top = { key: root, name: '', up: null, dirs: [], files: [] };
		this.dirs = new Map();
		this.dirOf = paths.map((path) => {
			const inside = path.startsWith(root);

			return this.directory(path.slice(0, Math.max(path.lastIndexOf('/'), 0)), inside);
		});
		this.order = inOrder(paths, this.order);
		for (const path of this.order) this.dirOf[path].files.push(path);
		this.dirs.forEach((dir) => dir.dirs.sort((a, b) => (a.name < b.name ? -1 : 1)));
		this.top.dirs.sort((a, b) => (a.name < b.name ? -1 : 1));
		this.writtenFiles = new Uint8Array(paths.length);
		this.isWrite = Uint8Array.from(model.usePlace, (k, i) => Number(model.writes(model.commands[model.useCommand[i]].uses[k])));
		for (let path = 0; path < paths.length; path++)
			this.writtenFiles[path] = Number(this.isWrite.subarray(model.start[path], model.start[path + 1]).includes(1));
		this.forget();
	}

	directory(name, inside) {
		const key = inside ? `${name}/` : name;

		if (inside && key.length <= this.top.key.length) return this.top;
		const found = this.dirs.get(key);
		if (found) return found;
		const slash = name.lastIndexOf('/'),
			up = slash < 0 ? this.top : this.directory(name.slice(0, slash), inside);
		const dir = { key, name: name.slice(slash + 1), up, dirs: [], files: [] };

		up.dirs.push(dir);
		this.dirs.set(key, dir);
		return dir;
	}

	// What was counted is counted anew.
	forget() {
		this.strips = new Map();
		this.decide();
	}

	// Are only files listed that were written?
	showWritten(written) {
		this.written = written;
		this.forget();
	}

	// Opens directories from the top, as long as there is room.
	decide() {
		const all = this.written ? this.writtenFiles : this.writtenFiles.map(() => 1);
		const queue = [this.top];
		let rows = 0;

		this.counted(all);
		for (const dir of queue) {
			const kids = dir.dirs.filter((child) => child.n).length + Math.min(dir.direct, FILES_MAX + 1);

			dir.opens = rows + kids <= OPEN_ROWS;
			if (!dir.opens) continue;
			rows += kids;
			queue.push(...dir.dirs.filter((child) => child.n));
		}
	}

	// Counts in each directory the files that are marked.
	counted(marked) {
		this.top.n = this.top.direct = 0;
		for (const dir of this.dirs.values()) dir.n = dir.direct = 0;
		marked.forEach((is, path) => {
			if (!is) return;
			this.dirOf[path].direct++;
			for (let dir = this.dirOf[path]; dir; dir = dir.up) dir.n++;
		});
	}

	isOpen(dir) {
		return this.folds.get(dir.key) ?? Boolean(dir.opens);
	}

	fold(dir, open) {
		this.folds.set(dir.key, open);
	}

	showMore(dir) {
		this.limits.set(dir.key, (this.limits.get(dir.key) ?? FILES_MAX) * 10);
	}

	// The rows of the marked files: {key, dir, label, level, n}, {key, path, level}, {key, dir, rest, level}.
	rows(marked) {
		const rows = [];

		this.counted(marked);
		this.walk(this.top, 1, marked, rows);
		return rows;
	}

	walk(dir, level, marked, rows) {
		const dirs = dir.dirs.filter((child) => child.n),
			size = dirs.length + Math.min(dir.direct, this.limit(dir) + 1);

		dirs.forEach((child, i) => {
			const [last, label] = joined(child);

			rows.push({ key: last.key, dir: last, label, level, n: last.n, position: i + 1, size });
			if (this.isOpen(last)) this.walk(last, level + 1, marked, rows);
		});
		const files = dir.files.filter((path) => marked[path]),
			rest = files.splice(this.limit(dir));
		files.forEach((path, i) =>
			rows.push({ key: path, path, level, position: dirs.length + i + 1, size }),
		);
		if (rest.length) rows.push({ key: `rest ${dir.key}`, dir, rest, level, position: size, size });
	}

	limit(dir) {
		return this.limits.get(dir.key) ?? FILES_MAX;
	}

	// The commands that used what is in a row, in the order of time: at; and how many writes and reads each did there.
	strip(row) {
		const key = row.rest ? `${row.key} ${row.rest.length}` : row.key;

		if (!this.strips.has(key))
			this.strips.set(key, this.count(row.path !== undefined ? [row.path] : (row.rest ?? below(row.dir))));
		return this.strips.get(key);
	}

	count(paths) {
		const { start, useCommand, commands } = this.model;
		const total = paths.reduce((sum, path) => sum + start[path + 1] - start[path], 0);

		return total < MANY_USES ? this.countFew(paths, total) : this.countMany(paths, start, useCommand, commands.length);
	}

	countMany(paths, start, useCommand, n) {
		const all = [new Uint32Array(n), new Uint32Array(n)]; // reads, writes

		for (const path of paths)
			for (let i = start[path]; i < start[path + 1]; i++) all[this.isWrite[i]][useCommand[i]]++;
		const at = Int32Array.from(all[0].keys()).filter((i) => all[0][i] || all[1][i]);
		return { at, reads: Uint32Array.from(at, (i) => all[0][i]), writes: Uint32Array.from(at, (i) => all[1][i]) };
	}

	countFew(paths, total) {
		const { start, useCommand } = this.model,
			uses = new Float64Array(total);
		const [at, writes, reads] = [new Int32Array(total), new Uint32Array(total), new Uint32Array(total)];
		let n = 0,
			last = -1;

		for (const path of paths)
			for (let i = start[path]; i < start[path + 1]; i++) uses[n++] = 2 * useCommand[i] + this.isWrite[i];
		uses.sort();
		for (const use of uses) {
			const command = Math.floor(use / 2);

			if (last < 0 || at[last] !== command) at[++last] = command;
			(use % 2 ? writes : reads)[last]++;
		}
		return { at: at.subarray(0, ++last), writes: writes.subarray(0, last), reads: reads.subarray(0, last) };
	}
}

// A directory with nothing but one directory in it is in one row with that.
function joined(dir) {
	let label = dir.name || '/';

	for (;;) {
		const dirs = dir.dirs.filter((child) => child.n);

		if (dir.direct || dirs.length !== 1) return [dir, label];
		[dir] = dirs;
		label += `${label.endsWith('/') ? '' : '/'}${dir.name}`;
	}
}

// The numbers of paths by their names; before: the same, of the first of them, so only the others are sorted.
function inOrder(paths, before = new Int32Array()) {
	const n = before.length,
		more = Int32Array.from({ length: paths.length - n }, (_, i) => n + i).sort((a, b) => (paths[a] < paths[b] ? -1 : 1)),
		all = new Int32Array(paths.length);

	for (let i = 0, k = 0; i + k < all.length; )
		all[i + k] = i < n && !(k < more.length && paths[more[k]] < paths[before[i]]) ? before[i++] : more[k++];
	return all;
}

function below(dir) {
	return [...dir.files, ...dir.dirs.flatMap(below)];
}
