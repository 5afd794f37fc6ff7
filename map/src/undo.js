// SPDX-License-Identifier: MIT
// What an undo of a command would do, as `shfs undo` shows it before it asks.
import { el } from './dom.js';
import { oneLine, time } from './text.js';

const SHOWN = 40; // rows, before one asks for more

// A list with a head; nothing, if it is empty.
function list(details, head, items, makeRow) {
	const rows = el('ul', { class: 'uses' }, items.slice(0, SHOWN).map(makeRow));
	const more = items.length - SHOWN;

	return items.length ? [el('h3', {}, head), rows, more > 0 && details.moreButton(more, () => rows.append(...items.slice(SHOWN).map(makeRow)))] : [];
}

// n: of a version, or undefined
function nameOf(details, name, n) {
	const path = details.model.paths.indexOf(name);

	return path < 0 ? el('span', {}, details.model.shorten(name)) : details.fileLink(path, n);
}

function changeRow(details, change) {
	const { model } = details,
		of = model.paths.indexOf(change.version_of ?? change.now_of);
	const version = (name, n) => (name === change.path ? '' : model.shorten(name)) + `@${n}`;
	const facts = [
		change.directory && 'a directory',
		change.from !== undefined && `${change.change === 'link' ? 'a name of' : 'from'} ${model.shorten(change.from)}`,
		change.n && (change.now_n ? `from ${version(change.now_of, change.now_n)} back to ` : 'as ') + version(change.version_of, change.n),
	];

	return details.row(
		`undo ${change.change} ${change.path}`,
		el(
			'div',
			{ class: 'use' },
			el('span', { class: 'dim' }, change.change),
			nameOf(details, change.path, change.n ? 0 : change.now_n),
			el('span', { class: 'dim' }, facts.filter(Boolean).join(' · ')),
			// from what there is now to what was
			of >= 0 && details.openers(of, change.n ?? change.now_n, change.now_of === change.version_of ? change.now_n : 0),
		),
	);
}

function reasonRow(details, reason) {
	const { model, go } = details,
		by = reason.command && model.commands.find((c) => c.id === reason.command);

	return details.row(
		`undo ${reason.reason} ${reason.path} ${reason.text}`,
		el('div', { class: 'use' }, nameOf(details, reason.path), el('span', { class: 'dim' }, oneLine(reason.text))),
		reason.command &&
			el(
				'div',
				{ class: 'by' },
				el('span', { class: 'dim' }, 'by '),
				by ? el('button', { class: 'link mono', onclick: () => go.command(by) }, by.title) : reason.command.slice(0, 7),
			),
	);
}

function parts(details, said) {
	const { any, changes, left_alone, notes } = said,
		cannot = left_alone.filter(({ reason }) => reason === 'cannot'),
		conflicts = left_alone.filter(({ reason }) => reason === 'conflict');
	const words = !any
		? 'it has changed no file here, or only in .git and the like.'
		: !changes.length && !left_alone.length
			? 'there is nothing to undo, all is as it was before.'
			: !changes.length
			? 'there is nothing that shfs undo would put back.'
			: cannot.length
				? 'as not all of it can be put back, shfs undo does nothing; with --partly it puts back the rest.'
				: 'shfs undo shows this again, as it is then, and asks.';

	return [
		el('p', { class: 'dim' }, `As of ${time(Date.now() * 1000)}: ${words}`),
		list(details, 'To be undone', changes, (change) => changeRow(details, change)),
		list(details, 'Not all as it was', notes, (reason) => reasonRow(details, reason)),
		list(details, 'Left alone', conflicts, (reason) => reasonRow(details, reason)),
		list(details, 'Cannot be put back', cannot, (reason) => reasonRow(details, reason)),
	];
}

// The preview: a promise of its element. It is of now: it does not follow the news, as what it takes to make it is read
// from files that are recorded.
export async function undoView(details, c) {
	const said = await details.model.source.undo(c.id);

	return el('div', { class: 'undo' }, parts(details, said));
}
