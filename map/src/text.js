// SPDX-License-Identifier: MIT
// Bytes of the user, times and sizes, as a person sees them.

// Controls, bidi controls, what has no width, halves of surrogate pairs: as in common/quote.c.
const UNSAFE =
	/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/gu;

function escape(char) {
	const code = char.charCodeAt(0);

	if (code >= 0xdc80 && code <= 0xdcff)
		// a byte that is not UTF-8
		return '\\x' + (code & 0xff).toString(16);
	if (code === 0x1b) return '\\e';
	if (code < 0x100) return '\\x' + code.toString(16).padStart(2, '0');
	return `\\u{${code.toString(16)}}`;
}

// Newlines and tabs stay.
export function visible(text) {
	return text.replace(UNSAFE, escape);
}

export function oneLine(text) {
	return visible(text).replace(/\n/g, '\\n').replace(/\t/g, '\\t');
}

export function cut(text, length) {
	return text.length > length ? text.slice(0, Math.max(length - 1, 0)) + '…' : text;
}

// The end of a path says more than its beginning.
export function cutLeft(text, length) {
	return text.length > length ? '…' + text.slice(text.length - Math.max(length - 1, 0)) : text;
}

const two = (n) => String(n).padStart(2, '0');
const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// Times are microseconds since 1970; people see them where the page is opened.
export function date(us) {
	const d = new Date(us / 1000);

	return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
}

export function time(us) {
	const d = new Date(us / 1000);

	return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// As short as it can be: 18:04, 18:04:05, 18:04:05.250
export function clock(us) {
	const ms = Math.floor(us / 1000) % 1000,
		text = time(us);

	return ms ? `${text}.${String(ms).padStart(3, '0')}` : text.endsWith(':00') ? text.slice(0, 5) : text;
}

export function day(us) {
	const d = new Date(us / 1000);

	return `${DAYS[d.getDay()]} ${d.getDate()} ${MONTHS[d.getMonth()]}`;
}

export function duration(us) {
	const s = us / 1e6;

	if (s < 0.01) return `${Math.round(us / 1000)} ms`;
	if (s < 1) return `${s.toFixed(2)} s`;
	if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
	if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
	if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export function size(bytes) {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	let i = 0;

	for (; bytes >= 1024 && i < units.length - 1; i++) bytes /= 1024;
	return `${i && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[i]}`;
}

export function count(n, one, many = one + 's') {
	return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}

// A word for bash and zsh, which has any bytes.
export function quoted(word) {
	if (!/[\u0000-\u001f\u007f-\u009f\udc80-\udcff]/.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
	return `$'${word.replace(/[\\'\u0000-\u001f\u007f\udc80-\udcff]/g, (char) =>
		char === '\\' || char === "'" ? `\\${char}` : `\\x${(char.charCodeAt(0) & 0xff).toString(16).padStart(2, '0')}`,
	)}'`;
}
