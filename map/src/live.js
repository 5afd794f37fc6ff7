// SPDX-License-Identifier: MIT
// Where data and contents come from: from the server of `shfs web`, in parts; or from the page itself.

import { encode } from './address.js';

const FIRST = 1000, // commands; what is on the screen soon
	PART = 4000,
	MOST = 20000; // before one asks for more
const STRIDE = 6;

async function ask(url) {
	const answer = await fetch(url, { credentials: 'same-origin' });

	if (!answer.ok) throw new Error((await answer.text()).trim());
	return answer;
}

export class Live {
	constructor() {
		// the token is in a cookie from now on, and not where it is seen
		history.replaceState(null, '', `/${location.hash}`);
		this.texts = new Map();
	}

	// The latest commands.
	async first() {
		this.data = await (await ask(`/data?limit=${FIRST}`)).json();
		this.most = MOST;
		return this.data;
	}

	// Adds earlier ones; false: there are no more, or enough for now.
	async more() {
		if (!this.data.cut || this.data.commands.length >= this.most) return false;
		const part = await (await ask(`/data?limit=${PART}&until=${this.data.next}`)).json();

		this.joined ??= new Joined(this.data);
		this.joined.add(part);
		return true;
	}

	// So many more may be loaded.
	async further() {
		this.most += MOST;
	}

	url(path, n) {
		return `/content?path=${encode(path)}&n=${n}`;
	}

	text(version, path) {
		const url = this.url(path, version.n);

		if (!this.texts.has(url))
			this.texts.set(
				url,
				ask(url).then((answer) => answer.text()),
			);
		return this.texts.get(url);
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
			versions: new Set(data.versions.map(([path, n]) => `${path}@${n}`)),
		});
	}

	add(part) {
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
			data.commands.push(c);
		}
		for (const version of part.versions) {
			version[0] = paths[version[0]];
			if (version[6] >= 0) version[6] = reasons[version[6]];
			if (version[7] >= 0) version[7] = paths[version[7]];
			const name = `${version[0]}@${version[1]}`;

			if (!this.versions.has(name)) data.versions.push(version);
			this.versions.add(name);
		}
		data.gaps = part.gaps;
		data.cut = part.cut;
		data.next = part.next;
	}
}
