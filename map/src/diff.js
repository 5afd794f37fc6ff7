// SPDX-License-Identifier: MIT
// Two contents side by side, as lines; one content.
import { diffWordsWithSpace, structuredPatch } from 'diff';
import { el } from './dom.js';
import { visible } from './text.js';

const LINES_MAX = 2000; // that are shown
const TIME_MAX = 1000; // milliseconds: what takes longer is too different to compare
const WORDS_MAX = 2000; // characters of a line that is compared by its words

// text: or what is in it
function line(kind, number, text) {
	return el(
		'div',
		{ class: `line ${kind}` },
		el('span', { class: 'number' }, String(number)),
		el('span', { class: 'code' }, typeof text === 'string' ? visible(text) : text),
	);
}

// For each line that another one takes the place of: the words in which they differ. By place in the hunk.
function wordsOf(lines) {
	const found = new Map();

	for (let at = 0; at < lines.length; at++) {
		const run = (from, sign) => {
			let end = from;

			while (lines[end]?.[0] === sign) end++;
			return end - from;
		};
		const n = run(at, '-');

		if (!n) continue;
		const pairs = Math.min(n, run(at + n, '+'));
		for (let i = at; i < at + pairs; i++) compareWords(found, i, lines[i].slice(1), i + n, lines[i + n].slice(1));
		at += n - 1;
	}
	return found;
}

function compareWords(found, i, before, j, after) {
	if (before.length > WORDS_MAX || after.length > WORDS_MAX) return;
	const parts = diffWordsWithSpace(before, after);

	if (!parts.some((part) => !part.added && !part.removed && part.value.trim())) return; // nothing is the same
	const of = (left) =>
		parts
			.filter((part) => !part[left])
			.map((part) => (part.added || part.removed ? el('mark', {}, visible(part.value)) : visible(part.value)));
	found.set(i, of('added'));
	found.set(j, of('removed'));
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
		const words = wordsOf(hunk.lines);
		for (const [i, text] of hunk.lines.entries()) {
			if (text[0] === '-') shown.push(line('removed', a++, words.get(i) ?? text.slice(1)));
			else if (text[0] === '+') shown.push(line('added', b++, words.get(i) ?? text.slice(1)));
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
