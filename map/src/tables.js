// SPDX-License-Identifier: MIT
// Two versions of a table, CSV or TSV, by the cells that changed.
import { diffArrays } from 'diff';
import Papa from 'papaparse';
import { el } from './dom.js';
import { count, size, visible } from './text.js';

const TEXT_MAX = 8 << 20; // characters of a table that is compared
const TIME_MAX = 1000; // milliseconds: as for texts
const ROWS_MAX = 300, // changed ones, of which more are not shown
	COLUMNS_MAX = 40;
const CELL_MAX = 200; // characters of a cell

export function isTable(path) {
	return /\.(csv|tsv)$/i.test(path);
}

function parse(text, path) {
	const { data, errors } = Papa.parse(text, { delimiter: /\.tsv$/i.test(path) ? '\t' : '', skipEmptyLines: true });

	return errors.some((error) => error.type === 'Quotes') ? null : data;
}

function isName(cell) {
	return cell.trim() !== '' && Number.isNaN(Number(cell));
}

// Names of columns are a first row of words that differ from each other.
function header(rows) {
	const [first] = rows;

	return first && first.every(isName) && new Set(first).size === first.length ? first : null;
}

// The columns of both: {name, a, b}, where they are in each (-1: it is not there).
function columns(a, b, named) {
	const width = (rows) => rows.reduce((most, row) => Math.max(most, row.length), 0);

	if (!named) {
		const [left, right] = [width(a), width(b)],
			at = (i, most) => (i < most ? i : -1);

		return Array.from({ length: Math.max(left, right) }, (_, i) => ({ name: String(i + 1), a: at(i, left), b: at(i, right) }));
	}
	const found = b[0].map((name, i) => ({ name, a: a[0].indexOf(name), b: i }));
	a[0].forEach((name, i) => {
		if (b[0].includes(name)) return;
		const before = found.findIndex((column) => column.a === i - 1);

		found.splice(before + 1, 0, { name, a: i, b: -1 });
	});
	return found;
}

// The first column by which rows can be told apart in both versions, and of which half are in both.
function keyOf(shared, a, b) {
	return shared.find((column) => {
		const [left, right] = [new Set(a.map((row) => row[column.a])), new Set(b.map((row) => row[column.b]))];
		let both = 0;

		if (left.size < a.length || right.size < b.length || left.has('') || right.has('')) return false;
		for (const key of left) if (right.has(key)) both++;
		return both > 0 && 2 * both >= Math.min(left.size, right.size);
	});
}

// Pairs of rows, [before, after], each the place of one or -1; in the order of the newer one. null: it takes too long.
function pairRows(shared, a, b) {
	const key = shared.length > 1 && keyOf(shared, a, b);

	if (key) return byKey(key, a, b);
	const text = (rows, side) => rows.map((row) => JSON.stringify(shared.map((column) => row[column[side]] ?? '')));
	const parts = diffArrays(text(a, 'a'), text(b, 'b'), { timeout: TIME_MAX }),
		pairs = [];
	let [i, j] = [0, 0];

	if (!parts) return null;
	for (let at = 0; at < parts.length; at++) {
		const removed = parts[at].removed ? parts[at].count : 0,
			next = removed ? parts[at + 1] : parts[at],
			added = next?.added ? next.count : 0;

		if (removed && added) at++;
		for (let k = 0; k < (removed || added ? Math.max(removed, added) : parts[at].count); k++) {
			const same = !removed && !added;

			pairs.push([same || k < removed ? i++ : -1, same || k < added ? j++ : -1]);
		}
	}
	return pairs;
}

function byKey(key, a, b) {
	const places = new Map(a.map((row, i) => [row[key.a], i])),
		there = new Set(b.map((row) => row[key.b])),
		pairs = b.map((row, j) => [places.get(row[key.b]) ?? -1, j]);
	const gone = a.map((_, i) => i).filter((i) => !there.has(a[i][key.a])),
		at = new Map(pairs.map(([i], j) => [i, j]));
	const out = [];
	let next = 0;

	// what is gone comes before the first of its followers that is there
	const goneBefore = (i) => {
		while (next < gone.length && gone[next] < i) out.push([gone[next++], -1]);
	};
	for (const pair of pairs) {
		if (pair[0] >= 0) goneBefore(pair[0]);
		out.push(pair);
	}
	goneBefore(Infinity);
	out.moved = inOrder([...at.keys()].filter((i) => i >= 0)) ? 0 : 1;
	return out;
}

function inOrder(list) {
	return list.every((n, i) => !i || list[i - 1] < n);
}

// What differs: {columns, rows: [{kind, number, cells: [[before, after]]}], and how many of each}; null: not to be told.
export function compareTables(before, after, path) {
	if (before.length > TEXT_MAX || after.length > TEXT_MAX) return null;
	const [a, b] = [parse(before, path), parse(after, path)];

	if (!a?.length || !b?.length) return null;
	const named = Boolean(header(a) && header(b)),
		all = columns(a, b, named),
		shared = all.filter((column) => column.a >= 0 && column.b >= 0);
	const first = named ? 1 : 0,
		[old, fresh] = [a.slice(first), b.slice(first)];
	const pairs = shared.length ? pairRows(shared, old, fresh) : null;

	if (!pairs) return null;
	const rows = [];
	let cells = 0;
	for (const [i, j] of pairs) {
		const kind = i < 0 ? 'added' : j < 0 ? 'removed' : 'changed';
		const values = all.map((column) => [
			i < 0 || column.a < 0 ? null : (old[i][column.a] ?? ''),
			j < 0 || column.b < 0 ? null : (fresh[j][column.b] ?? ''),
		]);
		const changed = values.filter(([x, y], k) => all[k].a >= 0 && all[k].b >= 0 && x !== y).length;

		if (kind === 'changed' && !changed) continue;
		if (kind === 'changed') cells += changed;
		rows.push({ kind, number: (j < 0 ? i : j) + 1, cells: values });
	}
	return { columns: all, rows, cells, moved: pairs.moved ?? 0 };
}

// --- how it is shown ---

function cell(text) {
	const rest = text.length - CELL_MAX;

	return visible(text.slice(0, CELL_MAX)) + (rest > 0 ? `… ${count(rest, 'more character')}` : '');
}

function cellView(kind, column, [before, after]) {
	if (kind === 'added') return el('td', {}, after === null ? '' : el('ins', {}, cell(after)));
	if (kind === 'removed') return el('td', {}, before === null ? '' : el('del', {}, cell(before)));
	if (column.a < 0) return el('td', {}, el('ins', {}, cell(after)));
	if (column.b < 0) return el('td', {}, el('del', {}, cell(before)));
	if (before === after) return el('td', {}, cell(after));
	return el('td', { class: 'changed' }, before && el('del', {}, cell(before)), before && after && ' ', after && el('ins', {}, cell(after)));
}

function nameView({ name, a, b }) {
	return b < 0 ? el('del', {}, cell(name)) : a < 0 ? el('ins', {}, cell(name)) : cell(name);
}

function says({ columns: all, rows, cells, moved }) {
	const of = (kind) => rows.filter((row) => row.kind === kind).length,
		names = (list) => list.map((column) => visible(column.name)).join(', ');
	const [gone, fresh] = [all.filter((column) => column.b < 0), all.filter((column) => column.a < 0)];

	return [
		cells && `${count(cells, 'cell')} changed`,
		of('added') && `${count(of('added'), 'row')} added`,
		of('removed') && `${count(of('removed'), 'row')} removed`,
		fresh.length && `${count(fresh.length, 'column')} added: ${names(fresh)}`,
		gone.length && `${count(gone.length, 'column')} removed: ${names(gone)}`,
		moved && 'rows are in another order',
	].filter(Boolean);
}

// The columns that are shown: where there are many, those in which something differs, and the first one.
function shownColumns({ columns: all, rows }) {
	if (all.length <= COLUMNS_MAX) return all.map((_, k) => k);
	const differs = all.map(
		(column, k) =>
			!k || column.a < 0 || column.b < 0 || rows.some(({ kind, cells }) => kind === 'changed' && cells[k][0] !== cells[k][1]),
	);

	return [...all.keys()].filter((k) => differs[k]).slice(0, COLUMNS_MAX);
}

// text: makes the comparison by lines, to be opened below.
export function tableView(before, after, path, text) {
	const differs = compareTables(before, after, path);

	if (!differs)
		return el(
			'div',
			{},
			Math.max(before.length, after.length) > TEXT_MAX &&
				el('p', { class: 'dim' }, `tables of more than ${size(TEXT_MAX)} are not compared by cells`),
			text(),
		);
	const said = says(differs),
		shown = shownColumns(differs),
		{ columns: all, rows } = differs;
	const left = [
		rows.length > ROWS_MAX && count(rows.length - ROWS_MAX, 'more row that differs', 'more rows that differ'),
		all.length > shown.length && `${count(all.length - shown.length, 'more column')}`,
	].filter(Boolean);
	const lines = el('details', { ontoggle: () => lines.children.length < 2 && lines.append(text()) }, el('summary', {}, 'by lines'));

	return el(
		'div',
		{ class: 'tables' },
		el('p', {}, said.length ? said.join(' · ') : 'the same cells'),
		rows.length > 0 &&
			el(
				'div',
				{ class: 'table', tabindex: 0, role: 'group', 'aria-label': 'Rows that differ' },
				el(
					'table',
					{},
					el(
						'thead',
						{},
						el(
							'tr',
							{},
							el('th', { scope: 'col' }, 'row'),
							shown.map((k) => el('th', { scope: 'col' }, nameView(all[k]))),
						),
					),
					el(
						'tbody',
						{},
						rows.slice(0, ROWS_MAX).map((row) =>
							el(
								'tr',
								{ class: row.kind },
								el('th', { scope: 'row' }, { added: '+ ', removed: '− ', changed: '' }[row.kind] + row.number.toLocaleString('en')),
								shown.map((k) => cellView(row.kind, all[k], row.cells[k])),
							),
						),
					),
				),
			),
		left.length > 0 && el('p', { class: 'dim' }, `not shown: ${left.join('; ')}`),
		lines,
	);
}
