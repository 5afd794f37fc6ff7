// SPDX-License-Identifier: MIT
// Two contents side by side, as lines; one content.
import { structuredPatch } from 'diff';
import { el } from './dom.js';
import { visible } from './text.js';

const LINES_MAX = 2000; // that are shown
const TIME_MAX = 1000; // milliseconds: what takes longer is too different to compare

function line(kind, number, text) {
	return el(
		'div',
		{ class: `line ${kind}` },
		el('span', { class: 'number' }, String(number)),
		el('span', { class: 'code' }, visible(text)),
	);
}

function more(n) {
	return el('div', { class: 'line hunk' }, `… ${n.toLocaleString('en')} more lines`);
}

export function contentView(text) {
	const lines = text.split('\n');

	if (lines.at(-1) === '') lines.pop();
	const shown = lines.slice(0, LINES_MAX).map((l, i) => line('', i + 1, l));
	if (lines.length > LINES_MAX) shown.push(more(lines.length - LINES_MAX));
	return el(
		'div',
		{ class: 'text', tabindex: 0 },
		shown.length ? shown : el('div', { class: 'line hunk' }, 'empty'),
	);
}

export function diffView(before, after) {
	const patch = structuredPatch('', '', before, after, '', '', { context: 3, timeout: TIME_MAX });
	const shown = [];

	if (!patch)
		return el('div', {}, el('p', { class: 'dim' }, 'too different to compare line by line'), contentView(after));
	for (const hunk of patch.hunks) {
		let a = hunk.oldStart,
			b = hunk.newStart;

		shown.push(
			el(
				'div',
				{ class: 'line hunk' },
				`lines ${hunk.newStart} to ${hunk.newStart + Math.max(hunk.newLines - 1, 0)}`,
			),
		);
		for (const text of hunk.lines) {
			if (text[0] === '-') shown.push(line('removed', a++, text.slice(1)));
			else if (text[0] === '+') shown.push(line('added', b++, text.slice(1)));
			else if (text[0] === '\\') shown.push(el('div', { class: 'line hunk' }, 'no newline at the end'));
			else shown.push(line('', (a++, b++), text.slice(1)));
		}
	}
	const rest = shown.length - LINES_MAX;
	if (rest > 0) shown.splice(LINES_MAX, rest, more(rest));
	return el(
		'div',
		{ class: 'text', tabindex: 0 },
		shown.length ? shown : el('div', { class: 'line hunk' }, 'the same content'),
	);
}
