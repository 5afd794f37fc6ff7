// SPDX-License-Identifier: MIT
// Where data and contents come from: from the server of `shfs web`, in parts; or from the page itself.

import { encode } from './address.js';

const FIRST = 1000, // commands; what is on the screen soon
	PART = 4000;
export const MOST = 20000; // before one asks for more
const RECENT = 100, // commands, which are asked for again when there is news
	RUNNING = 1000; // among so many, one that had not ended
const STRIDE = 6;

async function ask(url, signal) {
	const answer = await fetch(url, { credentials: 'same-origin', signal });

	if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), { status: answer.status });
	return answer;
}

export class Live {
	constructor() {
		// the token is in a cookie from now on, and not where it is seen
		history.replaceState(null, '', `/${location.hash}`);
		this.texts = new Map();
		this.recent = RECENT;
	}

	// The latest commands.
	async first() {
		const data = await (await ask(`/data?limit=${FIRST}`)).json();

		this.most = MOST;
		data.holes = data.cut ? [{ since: 0n, until: BigInt(data.next) }] : [];
		return (this.data = data);
	}

	// How much there is of the whole.
	async overview() {
		this.data.spans = (await (await ask('/overview')).json()).spans;
	}

	// Adds the latest ones that are not loaded; false: there are none, or enough for now.
	async more() {
		return this.data.commands.length < this.most && this.between(-Infinity, Infinity);
	}

	// Adds some that began between two moments; false: there are no more. One part comes after the other.
	between(from, to) {
		const part = (this.part ?? Promise.resolve()).then(() => this.fill(from, to));

		this.part = part.catch(() => {});
		return part;
	}

	async fill(from, to) {
		const { holes } = this.data,
			hole = holes.find(({ since, until }) => micro(since) <= to && micro(until) >= from);

		if (!hole) return false;
		const { since } = hole,
			wanted = to < micro(hole.until) ? BigInt(Math.ceil(to) + 1) * 1000n : hole.until,
			until = wanted < hole.until ? wanted : hole.until; // what is above is there already
		const part = await (await ask(`/data?limit=${PART}&until=${until}${since ? `&since=${since}` : ''}`)).json();

		this.joined ??= new Joined(this.data);
		this.joined.add(part, micro(until));
		holes.splice(
			holes.indexOf(hole),
			1,
			...(until < hole.until ? [{ since: until, until: hole.until }] : []),
			...(part.cut ? [{ since, until: BigInt(part.next) }] : []),
		);
		this.data.cut = holes.length > 0;
		return true;
	}

	// So many more may be loaded.
	async further() {
		this.most = Math.max(this.most, this.data.commands.length) + MOST;
	}

	// Which state the server has: once it is another one than that which was seen.
	async mark(seen, signal) {
		return (await (await ask(seen ? `/news?seen=${seen}` : '/news', signal)).json()).mark;
	}

	// Takes what is new: the latest commands, back to one that was running, as they are now. False: all is to be
	// loaded anew, as it is another server, an index that was rebuilt, or more than comes at once.
	async fresh(mark) {
		const { data } = this,
			{ commands } = data,
			whole = data.holes.length ? micro(data.holes[0].until) + 1 : 0; // since then nothing is missing
		const state = (name) => name.slice(0, name.lastIndexOf('.'));
		let i = Math.min(this.recent, commands.length) - 1;

		if (state(mark) !== state(data.mark)) return false;
		commands.slice(0, RUNNING).forEach((c, k) => {
			if (c.id !== null && c.end === null) i = Math.max(i, k);
		});
		const since = commands.length <= this.recent && !data.cut ? 0 : Math.max(commands[i].begin, whole);
		const part = await (await ask(`/data?limit=${PART}&since=${since ? `${since}000` : 1}`)).json();

		if (part.cut || state(part.mark) !== state(mark)) return false;
		this.joined ??= new Joined(data);
		this.joined.renew(part, since);
		return true;
	}

	url(path, n) {
		return `/content?path=${encode(path)}&n=${n}`;
	}

	text(version, path) {
		const url = this.url(path, version.n);

		if (!this.texts.has(url))
			this.texts.set(
				url,
				ask(url)
					.then((answer) => answer.text())
					.catch((error) => {
						this.texts.delete(url); // it is asked for again
						throw error;
					}),
			);
		return this.texts.get(url);
	}

	// What an undo of the command would do.
	async undo(id) {
		return (await ask(`/undo?command=${id}`)).json();
	}

	async stale() {
		return (await (await ask('/stale')).json()).stale;
	}
}

export class Embedded {
	constructor(read) {
		this.read = read;
	}

	text(version) {
		this.contents ??= this.read();
		return this.contents[version.content];
	}
}

// Tables of names: those of a part become those of the whole. places: where each of these is.
function joinNames(all, more, places, key) {
	return more.map((name) => {
		const found = places.get(key(name));

		if (found !== undefined) return found;
		places.set(key(name), all.length);
		return all.push(name) - 1;
	});
}

// As times of commands are; a number does not hold nanoseconds since 1970.
const micro = (ns) => Number(ns / 1000n);
const same = (name) => name;
const bySession = (session) => session.id;

// What is known of the whole, to join parts to it.
class Joined {
	constructor(data) {
		const places = (all, key) => new Map(all.map((name, i) => [key(name), i]));

		Object.assign(this, {
			data,
			paths: places(data.paths, same),
			directories: places(data.directories, same),
			sessions: places(data.sessions, bySession),
			reasons: places(data.reasons, same),
			versions: places(data.versions, ofVersion),
		});
	}

	// Adds commands that began before a moment, in front of the earlier ones.
	add(part, until) {
		const { data } = this,
			at = data.commands.findIndex((c) => c.begin < until);

		this.join(part);
		data.commands.splice(at < 0 ? data.commands.length : at, 0, ...part.commands);
		this.addGaps(part);
	}

	addGaps(part) {
		const known = new Set(this.data.gaps.map((gap) => JSON.stringify(gap)));

		this.data.gaps.push(...part.gaps.filter((gap) => !known.has(JSON.stringify(gap))));
	}

	// Takes these in place of all that began then or later. What is known stays the same object.
	renew(part, since) {
		const { data } = this,
			at = data.commands.findIndex((c) => c.begin < since),
			n = at < 0 ? data.commands.length : at;
		const known = new Map(data.commands.slice(0, n).map((c) => [ofCommand(c), c]));

		this.join(part);
		const now = part.commands.map((c) => {
			const old = known.get(ofCommand(c));

			if (!old) return c;
			for (const key of Object.keys(old)) delete old[key];
			return Object.assign(old, c);
		});
		data.commands = [...now, ...data.commands.slice(n)];
		this.addGaps(part);
		data.made = part.made;
		data.mark = part.mark;
	}

	// Gives what a part names the numbers of the whole.
	join(part) {
		const { data } = this,
			paths = joinNames(data.paths, part.paths, this.paths, same),
			directories = joinNames(data.directories, part.directories, this.directories, same),
			sessions = joinNames(data.sessions, part.sessions, this.sessions, bySession),
			reasons = joinNames(data.reasons, part.reasons, this.reasons, same);

		for (const c of part.commands) {
			if (c.session !== null) c.session = sessions[c.session];
			c.cwd = directories[c.cwd];
			for (let k = 0; k < c.uses.length; k += STRIDE) {
				c.uses[k + 1] = paths[c.uses[k + 1]];
				if (c.uses[k + 4] >= 0) c.uses[k + 4] = paths[c.uses[k + 4]];
			}
		}
		for (const version of part.versions) {
			version[0] = paths[version[0]];
			if (version[6] >= 0) version[6] = reasons[version[6]];
			if (version[7] >= 0) version[7] = paths[version[7]];
		}
		for (const note of part.notes) note[0] = paths[note[0]];
		replace(data.versions, part.versions, this.versions, ofVersion);
		// a note may be gone: there are those of all paths of the part
		const told = new Set(paths);

		data.notes = data.notes.filter(([path]) => !told.has(path)).concat(part.notes);
	}
}

const ofCommand = (c) => c.id ?? `${c.pid} ${c.begin}`;
const ofVersion = ([path, n]) => `${path}@${n}`;

// What is known takes the place of what was known of it; the rest comes behind.
function replace(all, more, places, key) {
	for (const one of more) {
		const found = places.get(key(one));

		if (found === undefined) places.set(key(one), all.push(one) - 1);
		else all[found] = one;
	}
}
