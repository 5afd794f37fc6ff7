// SPDX-License-Identifier: MIT
// What a version looks like, small: an image, or its first lines.
import { isImage } from './compare.js';
import { svg } from './dom.js';
import { cut, size, visible } from './text.js';

const IMAGE = { width: 200, height: 160 },
	TEXT = { width: 188, height: 92 };
const BAND = 24, // for its name
	LINES = 5,
	COLUMNS = 34,
	BYTES_MAX = 262144; // of a text that is asked for

// How large it is.
export function cardSize(model, path) {
	return isImage(model, path) ? IMAGE : TEXT;
}

// Where its name is, from its middle.
export function labelAt(model, path) {
	return (cardSize(model, path).height - BAND) / 2;
}

// Its first page is not drawn: what does that is larger than all of this page (docs/map.md).
function isPdf(model, path) {
	return /\.pdf$/i.test(model.paths[path]);
}

// Has it something to be seen?
export function hasCard(model, path, n) {
	const version = model.source.url && model.version(path, n);

	return Boolean(version) && version.content !== null && (isImage(model, path) || isPdf(model, path) || version.bytes <= BYTES_MAX);
}

function lines(text) {
	const rows = text.split('\n').slice(0, LINES);

	if (text.includes('\0')) return [svg('tspan', { x: -TEXT.width / 2 + 8, dy: 12.2 }, 'no text')];
	return rows.map((row) => svg('tspan', { x: -TEXT.width / 2 + 8, dy: 12.2 }, cut(visible(row.replace(/\t/g, '  ')), COLUMNS) || ' '));
}

// Its picture, in the coordinates of the node; the texts come later.
export function card(model, path, n) {
	const { width, height } = cardSize(model, path),
		[x, y] = [-width / 2, -height / 2];

	if (isImage(model, path))
		return [
			svg('rect', { class: 'paper', x: x + 5, y: y + 5, width: width - 10, height: height - BAND - 6 }),
			svg('image', {
				href: model.source.url(model.paths[path], n),
				x: x + 6,
				y: y + 6,
				width: width - 12,
				height: height - BAND - 8,
				preserveAspectRatio: 'xMidYMid meet',
			}),
		];
	const text = svg('text', { class: 'first', y: y + 4 });

	if (isPdf(model, path)) {
		text.append(...lines(`PDF, ${size(model.version(path, n).bytes)}`));
		return [text];
	}
	Promise.resolve(model.content(path, n)).then(
		(content) => text.append(...lines(content)),
		(error) => text.append(...lines(error.message)),
	);
	return [text];
}
