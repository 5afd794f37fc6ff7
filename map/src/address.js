// SPDX-License-Identifier: MIT
// The address says what is shown: so it can be gone back to, sent, and loaded anew.

const LATER = 400; // milliseconds, after which what moves all the time is said

// A path as the bytes that it is: those that are not UTF-8 are halves of surrogate pairs (docs/json.md).
export function encode(path) {
	return path.replace(/[\udc80-\udcff]|[^\udc80-\udcff]+/gu, (part) =>
		/^[\udc80-\udcff]$/u.test(part)
			? `%${(part.charCodeAt(0) & 0xff).toString(16)}`
			: encodeURIComponent(part.replace(/\p{Surrogate}/gu, '\ufffd')).replaceAll('%2F', '/'),
	);
}

// The other way.
function decode(text) {
	const bytes = new TextEncoder().encode(text),
		out = [];

	for (let i = 0; i < bytes.length; i++) {
		const hex = bytes[i] === 37 && text.length && String.fromCharCode(bytes[i + 1], bytes[i + 2]);

		if (hex && /^[\da-f]{2}$/i.test(hex)) {
			out.push(parseInt(hex, 16));
			i += 2;
		} else out.push(bytes[i] === 43 ? 32 : bytes[i]);
	}
	return fromBytes(Uint8Array.from(out));
}

function fromBytes(bytes) {
	const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
	let text = '';

	for (let at = 0; at < bytes.length; ) {
		const lead = bytes[at],
			n = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

		try {
			text += strict.decode(bytes.subarray(at, at + n));
			at += n;
		} catch {
			text += String.fromCharCode(0xdc00 + bytes[at++]);
		}
	}
	return text;
}

const FILES = ['file', 'graph', 'in']; // that are paths

function read(hash) {
	const asked = hash.replace(/^#/, '');

	if (/^[\da-f]{4,}$/i.test(asked)) return { command: asked }; // the short form
	return Object.fromEntries(
		asked
			.split('&')
			.filter(Boolean)
			.map((pair) => {
				const [name, ...value] = pair.split('=');

				return [name, decode(value.join('='))];
			}),
	);
}

function write(what) {
	return Object.entries(what)
		.filter(([, value]) => value !== undefined && value !== null && value !== '')
		.map(([name, value]) => `${name}=${FILES.includes(name) ? encode(String(value)) : encodeURIComponent(value)}`)
		.join('&');
}

// A moment, in microseconds since 1970, to the hundredth of a millisecond: so it comes back as it was written.
export function momentText(us) {
	const fine = Math.round(us / 10);

	return `${new Date(Math.floor(fine / 100)).toISOString().slice(0, -1)}${String(fine % 100).padStart(2, '0')}Z`;
}

export function momentOf(text = '') {
	const [, rest = '0'] = text.match(/\.\d{3}(\d{2})Z$/) ?? [];

	return Date.parse(text) * 1000 + Number(rest) * 10;
}

export class Address {
	// tell: what is shown now; show: that again
	constructor(tell, show) {
		Object.assign(this, { tell, show, quiet: false, pending: false });
		globalThis.addEventListener('popstate', () => this.follow());
	}

	get asked() {
		return read(location.hash);
	}

	// Shows what the address asks for.
	follow() {
		clearTimeout(this.later);
		this.quiet = true;
		try {
			return this.show(this.asked);
		} finally {
			this.quiet = false;
		}
	}

	// Says what is shown, as a step that one can go back. A run of one kind of steps is one of these.
	step(kind = null) {
		if (this.quiet) return;
		const again = kind && kind === this.kind;

		this.pending = false;
		this.kind = kind;
		this.put(again ? 'replaceState' : 'pushState');
	}

	// The same, without a step, when it has come to rest.
	drift() {
		clearTimeout(this.later);
		if (!this.quiet) this.later = setTimeout(() => this.put('replaceState'), LATER);
	}

	put(how) {
		const hash = write(this.tell());

		if (this.quiet || this.pending) return;
		clearTimeout(this.later);
		if (hash !== location.hash.slice(1)) history[how](null, '', `${location.pathname}${location.search}${hash && '#'}${hash}`);
	}
}
