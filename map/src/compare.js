// SPDX-License-Identifier: MIT
// A version as what it is, image or text; and two versions of a file beside each other.
import { contentView, diffView } from './diff.js';
import { el } from './dom.js';
import { isTable, tableView } from './tables.js';
import { count } from './text.js';

const IMAGE = /\.(png|jpe?g|gif|webp|bmp|svg)$/i;
const PIXELS_MAX = 4096 * 4096; // that are compared

// Can it be shown as an image? Only a server gives these.
export function isImage(model, path) {
	return Boolean(model.source.url) && IMAGE.test(model.paths[path]);
}

function picture(model, path, n) {
	const image = el('img', { src: model.source.url(model.paths[path], n), alt: model.name(path, n) });

	return image.decode().then(
		() => image,
		() => Promise.reject(new Error('this image cannot be shown')),
	);
}

export async function versionView(model, path, n) {
	return isImage(model, path) ? el('div', { class: 'pictures' }, await picture(model, path, n)) : contentView(await model.content(path, n));
}

// What differs, in a colour, over the newer one in grey.
function difference(before, after) {
	const width = Math.max(before.naturalWidth, after.naturalWidth),
		height = Math.max(before.naturalHeight, after.naturalHeight);

	if (!width || !height || width * height > PIXELS_MAX) return null;
	const pixels = (image) => {
		const canvas = el('canvas', { width, height }),
			ctx = canvas.getContext('2d', { willReadFrequently: true });

		ctx.drawImage(image, 0, 0);
		return ctx.getImageData(0, 0, width, height);
	};
	const [a, b] = [pixels(before), pixels(after)];
	const out = new ImageData(width, height);
	let changed = 0;

	for (let i = 0; i < a.data.length; i += 4) {
		const same = [0, 1, 2, 3].every((k) => a.data[i + k] === b.data[i + k]);
		const grey = 255 - ((255 - (b.data[i] + b.data[i + 1] + b.data[i + 2]) / 3) * b.data[i + 3]) / 255 / 4;

		if (!same) changed++;
		out.data.set(same ? [grey, grey, grey, 255] : [214, 39, 100, 255], i);
	}
	const canvas = el('canvas', { width, height, role: 'img', 'aria-label': 'What differs' });
	canvas.getContext('2d').putImageData(out, 0, 0);
	return { canvas, changed };
}

export async function compareView(model, path, before, n) {
	if (!isImage(model, path)) {
		const texts = [await model.content(path, before), await model.content(path, n)],
			lines = () => diffView(...texts);

		return isTable(model.paths[path]) && !texts.some((text) => text.includes('\0')) ? tableView(...texts, model.paths[path], lines) : lines();
	}
	const [a, b] = await Promise.all([picture(model, path, before), picture(model, path, n)]);
	const differs = difference(a, b);
	const figure = (image, text) => el('figure', {}, image, el('figcaption', { class: 'dim' }, text));

	return el(
		'div',
		{ class: 'pictures' },
		figure(a, `@${before}`),
		figure(b, `@${n}`),
		differs && figure(differs.canvas, differs.changed ? `${count(differs.changed, 'pixel')} differ` : 'the same pixels'),
	);
}
