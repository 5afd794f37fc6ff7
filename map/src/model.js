// SPDX-License-Identifier: MIT
// The data of the page (docs/map.md), and what is looked up in it.
import { kindOf } from './kinds.js';
import { oneLine } from './text.js';

const STRIDE = 6; // numbers for one use of a file
const VERSIONS = 2 ** 21; // more than a path can have here
const PARTS = 8; // of a span

export const AGAIN = 2,
	INCOMPLETE = 4,
	NOT_ARCHIVED = 8;

export class Model {
	// source: of contents (live.js)
	constructor(data, source) {
		this.data = data;
		this.kinds = data.kinds;
		this.source = source;
		this.load();
	}

	// Reads the data, again if there is more of it.
	load() {
		const { data } = this;

		this.paths = data.paths;
		this.sessions = data.sessions;
		this.commands = [...data.commands].reverse(); // the latest came first
		this.asked = this.versions = this.words = this.names = undefined;
		this.commands.forEach((c, i) => {
			c.index = i;
			c.stop = c.end ?? c.begin;
			c.title ??= this.title(c);
			c.kindOf ??= kindOf(c.title);
		});
		this.notes = new Map(data.notes.map(([path, n, note, tags]) => [path * VERSIONS + n, { note, tags }]));
		this.root = this.commonRoot();
		this.joinSessions();
		this.indexFiles();
		this.hollow = this.findHollow();
	}

	// What is not loaded: where that is known, {from, to, n, failed}, of commands that began there.
	findHollow() {
		const { commands, data } = this,
			{ spans = [] } = data,
			holes = (data.holes ?? []).map(({ since, until }) => [Number(since) / 1000, Number(until) / 1000]),
			found = [];
		let at = 0;

		for (let k = 0; holes.length && k < spans.length; k += 4) {
			const [from, to, all, bad] = spans.slice(k, k + 4);
			let [n, failed] = [all, bad];

			while (at < commands.length && commands[at].begin < from) at++;
			for (; at < commands.length && commands[at].begin <= to; at++) {
				n--;
				failed -= Boolean(commands[at].status);
			}
			const within = holes
				.filter(([since, until]) => since <= to && until >= from)
				.map(([since, until]) => ({ from: Math.max(from, since), to: Math.min(to, until) }));
			const length = within.reduce((sum, part) => sum + part.to - part.from, 0);

			for (const part of n > 0 ? within : []) {
				const share = length ? (part.to - part.from) / length : 1 / within.length;

				found.push({ ...part, n: n * share, failed: Math.max(failed, 0) * share });
			}
		}
		return found;
	}

	// Is there something that is not loaded?
	get isCut() {
		return this.data.spans ? this.missing() > 0 : Boolean(this.data.cut);
	}

	// About how many commands between two moments are not loaded; 0: none.
	missing(from = -Infinity, to = Infinity) {
		let n = 0;

		for (const span of this.hollow) {
			const length = span.to - span.from,
				part = Math.min(span.to, to) - Math.max(span.from, from);

			if (part >= 0) n += length ? (span.n * part) / length : span.n;
		}
		return Math.ceil(n - 1e-6);
	}

	title(c) {
		if (c.pid !== undefined) return oneLine((c.argv.length ? c.argv.join(' ') : c.exe) || `process ${c.pid}`);
		return c.text === null ? '(text not recorded)' : oneLine(c.text);
	}

	// Commands of no session, which are processes, are in one of their own.
	joinSessions() {
		const outside = { id: null, shell: 'outside of shells', commands: [] };

		this.sessions.forEach((s) => (s.commands = []));
		for (const c of this.commands) {
			c.of = c.session === null ? outside : this.sessions[c.session];
			c.of.commands.push(c);
		}
		this.rows = this.sessions.filter((s) => s.commands.length);
		this.rows.sort((a, b) => a.commands[0].begin - b.commands[0].begin);
		if (outside.commands.length) this.rows.push(outside);
		this.rows.forEach((s, i) => {
			s.index = i;
			s.first = s.commands[0].begin;
			s.last = s.commands.reduce((last, c) => Math.max(last, c.stop), 0);
		});
	}

	// For each file where its uses are: in the order of time.
	indexFiles() {
		const start = new Int32Array(this.paths.length + 1);

		for (const c of this.commands) for (let k = 0; k < c.uses.length; k += STRIDE) start[c.uses[k + 1] + 1]++;
		for (let p = 0; p < this.paths.length; p++) start[p + 1] += start[p];
		const next = start.slice(),
			command = new Int32Array(start[this.paths.length]),
			place = new Int32Array(command.length);
		for (const c of this.commands)
			for (let k = 0; k < c.uses.length; k += STRIDE) {
				const at = next[c.uses[k + 1]]++;

				command[at] = c.index;
				place[at] = k;
			}
		Object.assign(this, { start, useCommand: command, usePlace: place });
	}

	use(c, k) {
		const [kind, path, read, made, from, flags] = c.uses.slice(k, k + STRIDE);

		return { command: c, kind: this.kinds[kind], path, read, made, from, flags };
	}

	uses(c) {
		const found = [];

		for (let k = 0; k < c.uses.length; k += STRIDE) found.push(this.use(c, k));
		return found;
	}

	// All uses of a file, the earliest first.
	usesOf(path) {
		if (this.asked?.path === path)
			// one file is asked about many times
			return this.asked.uses;
		const found = [];

		this.asked = { path, uses: found };
		for (let at = this.start[path]; at < this.start[path + 1]; at++)
			found.push(this.use(this.commands[this.useCommand[at]], this.usePlace[at]));
		return found;
	}

	commandsOf(path) {
		return Array.from(this.useCommand.subarray(this.start[path], this.start[path + 1]), (i) => this.commands[i]);
	}

	// Does a kind of use leave a content?
	writes(kind) {
		return kind < 4 || kind === 5; // wrote, changed, renamed, linked; removed
	}

	// Which commands made what is stale; names: PATH@N. For each of those that made something 0, or 1: it is not.
	markStale(names) {
		for (const c of this.commands) {
			const made = this.uses(c).filter((use) => use.made && !(use.flags & AGAIN));

			c.stale = !made.length ? 2 : made.some((use) => names.has(`${this.paths[use.path]}@${use.made}`)) ? 0 : 1;
		}
	}

	// The numbers of versions of a file that are known here.
	numbersOf(path) {
		const found = new Set();

		for (const use of this.usesOf(path)) {
			found.add(use.read);
			found.add(use.made);
		}
		found.delete(0);
		return [...found].sort((a, b) => a - b);
	}

	makerOf(path, n) {
		return this.usesOf(path).find((use) => use.made === n && !(use.flags & AGAIN))?.command;
	}

	readersOf(path, n) {
		return this.usesOf(path)
			.filter((use) => use.read === n && (use.kind === 'read' || use.kind === 'changed'))
			.map((use) => use.command);
	}

	// What is known of a version beside its number; made when first asked for.
	version(path, n) {
		this.versions ??= new Map(
			this.data.versions.map(([p, number, time, bytes, source, content, why, from, fromN]) => [
				p * VERSIONS + number,
				{
					path: p,
					n: number,
					time,
					bytes,
					source: this.data.sources[source],
					content: content < 0 ? null : content,
					why: why < 0 ? null : this.data.reasons[why],
					from: from < 0 ? null : { path: from, n: fromN },
				},
			]),
		);
		return this.versions.get(path * VERSIONS + n);
	}

	// The note and the tags of a version; undefined: it has none.
	noteOf(path, n) {
		return this.notes.get(path * VERSIONS + n);
	}

	// Its text, a promise of that, or null.
	content(path, n) {
		const found = this.version(path, n);

		return !found || found.content === null ? null : this.source.text(found, this.paths[path]);
	}

	// The latest version of a file that is there; 0: it was removed.
	latest(path) {
		const uses = this.usesOf(path);

		return uses.at(-1)?.kind === 'removed' ? 0 : (this.numbersOf(path).at(-1) ?? 0);
	}

	commonRoot() {
		let root = null;

		if (this.data.project) return `${this.data.project}/`;

		for (const path of this.paths) {
			if (root === null) root = path.slice(0, path.lastIndexOf('/') + 1);
			while (!path.startsWith(root)) root = root.slice(0, root.lastIndexOf('/', root.length - 2) + 1);
		}
		return root ?? '/';
	}

	// A path below what all of them have in common.
	short(path) {
		return this.shorten(this.paths[path]);
	}

	shorten(name) {
		return oneLine(name.startsWith(this.root) ? name.slice(this.root.length) : name);
	}

	name(path, n) {
		return this.short(path) + (n ? `@${n}` : '');
	}

	// Commands that a search finds: by text, id, note, or tag; by the name of a file that they used, or the note of a
	// version that they made or used.
	find(query) {
		const found = new Set(),
			wanted = query.toLowerCase();

		this.words ??= this.commands.map((c) => `${c.id ?? ''}\n${c.title}\n${noteText(c)}`.toLowerCase());
		this.names ??= this.paths.map((_, path) => this.short(path).toLowerCase());
		this.words.forEach((text, i) => {
			if (text.includes(wanted)) found.add(i);
		});
		this.names.forEach((name, p) => {
			if (name.includes(wanted))
				for (let at = this.start[p]; at < this.start[p + 1]; at++) found.add(this.useCommand[at]);
		});
		for (const [key, noted] of this.notes) {
			const path = Math.floor(key / VERSIONS),
				n = key % VERSIONS;

			if (noteText(noted).toLowerCase().includes(wanted))
				for (const use of this.usesOf(path)) if (use.made === n || use.read === n) found.add(use.command.index);
		}
		return [...found].sort((a, b) => a - b);
	}
}

// Moments in a span of what is not loaded, {t, n, failed}: it is taken to be spread evenly.
export function spread({ from, to, n, failed }) {
	const parts = Math.min(Math.ceil(n), PARTS);

	return Array.from({ length: parts }, (_, i) => ({ t: from + ((to - from) * i) / Math.max(parts - 1, 1), n: n / parts, failed: failed / parts }));
}

// "#tag #tag the note", of a command or a version; '': it has none.
export function noteText({ note, tags = [] } = {}) {
	return [...tags.map((tag) => `#${tag}`), note].filter(Boolean).join(' ');
}
