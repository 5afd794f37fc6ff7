// SPDX-License-Identifier: MIT
// What an undo of a command would do, as `shfs undo` shows it before it asks.
import { el } from './dom.js';
import { oneLine } from './text.js';

const SHOWN = 40, // rows, before one asks for more
	REST = 4; // times as long as an answer took, before it is asked again

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
	const version = (of, n) => (of === change.path ? '' : model.shorten(of)) + `@${n}`;
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
		? 'It has changed no file here, or only in .git and the like.'
		: !changes.length && !left_alone.length
			? 'There is nothing to undo: all is as it was before.'
			: !changes.length
			? 'There is nothing that shfs undo would put back.'
			: cannot.length
				? 'As not all of it can be put back, shfs undo does nothing; with --partly it puts back the rest.'
				: 'shfs undo shows this again, as it is then, and asks.';

	return [
		el('p', { class: 'dim' }, words),
		list(details, 'To be undone', changes, (change) => changeRow(details, change)),
		list(details, 'Not all as it was', notes, (reason) => reasonRow(details, reason)),
		list(details, 'Left alone', conflicts, (reason) => reasonRow(details, reason)),
		list(details, 'Cannot be put back', cannot, (reason) => reasonRow(details, reason)),
	];
}

// The preview: a promise of its element. Its renew() asks again, as soon as the one before is answered.
export async function undoView(details, c) {
	const box = el('div', { class: 'undo' }),
		{ model } = details;
	let seen = null,
		isAsking = false,
		again = false;

	async function ask() {
		const said = await model.source.undo(c.id),
			isKnown = said.left_alone.map(({ command }) => model.commands.some(({ id }) => id === command)),
			text = JSON.stringify([said, isKnown]);

		if (text === seen) return; // what is opened in it stays so
		seen = text;
		box.replaceChildren(...parts(details, said).flat(Infinity).filter(Boolean));
	}

	async function askAgain() {
		const began = performance.now();

		again = false;
		try {
			await ask();
		} catch (error) {
			seen = null;
			box.replaceChildren(el('p', { class: 'dim' }, error.message));
		}
		const rest = REST * (performance.now() - began);

		await new Promise((done) => setTimeout(done, rest));
	}

	box.renew = async () => {
		again = true;
		if (isAsking) return;
		isAsking = true;
		while (again && box.isConnected) await askAgain();
		isAsking = false;
	};
	await ask();
	return box;
}
