// SPDX-License-Identifier: MIT
// The panel at the side: a command, or a file.
import { AGAIN, INCOMPLETE, NOT_ARCHIVED, noteText } from './model.js';
import { byId, el } from './dom.js';
import { compareView, isImage, versionView } from './compare.js';
import { count, date, duration, oneLine, quoted, size, time, visible } from './text.js';
import { ofCommand } from './theme.js';
import { sessionName } from './timeline.js';
import { undoView } from './undo.js';

const SHOWN = 40; // files of a command, versions of a file, before one asks for more

// What is seen of them: texts, and colours of commands.
const signOf = (children) =>
	children.map((child) => [child, ...child.querySelectorAll('.swatch')].map((box) => box.style.background) + child.textContent).join();

export class Details {
	// go: {command(c), file(path), graph(path, n)}
	constructor(model, go) {
		Object.assign(this, { model, go, panel: byId('details') });
	}

	// view: makes what is shown, again if there is more to it
	show(view) {
		this.view = view;
		this.whole = false;
		this.panel.hidden = false;
		this.fresh(view());
		this.panel.scrollTop = 0;
	}

	fresh(view) {
		const children = view.flat().filter(Boolean);

		this.sign = signOf(children);
		this.panel.replaceChildren(...children);
	}

	close() {
		this.view = null;
		this.panel.hidden = true;
		this.panel.replaceChildren();
	}

	// There may be more to what is shown. What was opened in it stays so, and stays where it is.
	renew() {
		const { panel, view } = this;

		if (!view) return;
		const made = view(),
			focus = document.activeElement,
			rows = [...panel.querySelectorAll('li[data-sign]')],
			anchor = rows.find((row) => row.offsetTop + row.offsetHeight > panel.scrollTop),
			away = anchor && anchor.offsetTop - panel.scrollTop;

		if (signOf(made.flat().filter(Boolean)) === this.sign) return;
		this.fresh(made);
		for (const row of panel.querySelectorAll('li[data-sign]')) {
			const at = rows.findIndex((old) => old.dataset.key === row.dataset.key);

			if (at >= 0) keep(row, ...rows.splice(at, 1));
		}
		if (anchor?.isConnected && panel.scrollTop) panel.scrollTop = anchor.offsetTop - away;
		if (focus.isConnected) focus.focus({ preventScroll: true });
		else if (focus !== document.body) this.again(focus)?.focus({ preventScroll: true });
	}

	// The button that took the place of one.
	again(button) {
		return [...this.panel.querySelectorAll('button')].find((other) => other.textContent === button.textContent && !other.disabled);
	}

	// key: what it is of
	row(key, ...children) {
		const row = el('li', { 'data-key': key }, ...children);

		row.dataset.sign = row.textContent;
		return row;
	}

	// The note and the tags of a command or version.
	noted(of) {
		if (!noteText(of)) return null;
		return el(
			'p',
			{ class: 'noted' },
			(of.tags ?? []).map((tag) => [el('span', { class: 'tag' }, `#${oneLine(tag)}`), ' ']),
			of.note && visible(of.note),
		);
	}

	head(title, before) {
		return el(
			'header',
			{},
			before,
			el('h2', {}, title),
			el(
				'button',
				{ class: 'quiet', title: 'Close (Esc)', 'aria-label': 'Close', onclick: () => this.go.none() },
				'✕',
			),
		);
	}

	facts(pairs) {
		return el(
			'dl',
			{},
			pairs.filter(([, value]) => value).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]),
		);
	}

	// --- a command ---

	command(c) {
		this.show(() => this.commandView(c));
	}

	commandView(c) {
		const ended = c.end === null ? (c.pid === undefined ? 'no end recorded' : null) : duration(c.end - c.begin);

		return [
			this.head(c.id === null ? `process ${c.pid}` : c.id.slice(0, 7), this.swatch(c)),
			el('pre', { class: 'typed', tabindex: 0 }, c.text ? visible(c.text) : c.title),
			this.noted(c),
			this.facts([
				[
					'when',
					[
						`${date(c.begin)} ${time(c.begin)}`,
						ended && el('span', { class: 'dim' }, ` · ${ended}`),
					].filter(Boolean),
				],
				[
					'status',
					c.status === null
						? null
						: el(
								'span',
								{ class: c.status ? 'badge bad' : 'badge' },
								c.status ? `exit ${c.status}` : 'ok',
							),
				],
				['in', el('span', { class: 'path' }, oneLine(this.model.data.directories[c.cwd]))],
				[
					'session',
					c.of.id && [sessionName(c.of), el('span', { class: 'dim' }, ` on ${oneLine(c.of.host)}`)],
				],
				['program', c.exe && el('span', { class: 'path' }, oneLine(c.exe))],
			]),
			this.steps(c),
			this.undoOf(c),
			this.filesOf(c),
		];
	}

	swatch(c) {
		const box = el('span', { class: 'swatch' });

		box.style.background = ofCommand(c);
		return box;
	}

	steps(c) {
		const list = c.of.commands,
			i = list.indexOf(c);
		const step = (to, text) => el('button', { disabled: !to, onclick: () => this.go.command(to) }, text);

		return el(
			'nav',
			{},
			step(list[i - 1], '← Previous'),
			el('span', { class: 'dim' }, `${i + 1} of ${list.length} in its session`),
			step(list[i + 1], 'Next →'),
		);
	}

	undoOf(c) {
		if (c.id === null || !this.model.source.undo) return null;
		return el(
			'ul',
			{ class: 'uses' },
			this.row(
				'undo',
				el(
					'div',
					{ class: 'use' },
					el('span', {}, 'undo'),
					el(
						'span',
						{ class: 'openers' },
						this.copier('copy undo', `shfs undo ${c.id}`),
						this.toggle('preview', () => undoView(this, c)),
					),
				),
			),
		);
	}

	filesOf(c) {
		const uses = this.model.uses(c),
			parts = [];
		let kind = null,
			shown = 0,
			list = null;

		for (const use of uses) {
			if (use.kind !== kind) parts.push(el('h3', {}, (kind = use.kind)), (list = el('ul', { class: 'uses' })));
			if (shown++ < SHOWN || this.whole) list.append(this.useRow(use, shown > SHOWN));
		}
		if (shown > SHOWN && !this.whole)
			parts.push(
				this.moreButton(shown - SHOWN, () => {
					uses.slice(SHOWN).forEach((use) => list.append(this.useRow(use, true)));
				}),
			);
		for (const [n, text] of [
			[c.left_out, 'more, not in this map'],
			[c.bookkeeping, 'in .git and the like'],
			[c.temporary, 'temporary, made and gone again'],
		])
			if (n) parts.push(el('p', { class: 'dim' }, `${count(n, 'file')} ${text}`));
		return parts.length ? parts : el('p', { class: 'dim' }, 'used no files');
	}

	moreButton(n, show) {
		const button = el('button', { onclick: () => (show(), button.remove(), (this.whole = true)) }, `${n} more`);

		return button;
	}

	useRow(use, named) {
		const { model } = this,
			n = use.made || use.read,
			version = model.version(use.path, n);
		const before = use.kind === 'changed' ? use.read : use.made > 1 ? use.made - 1 : 0;
		const facts = [
			named && use.kind,
			use.kind === 'changed' && use.read && `from @${use.read}`,
			use.from >= 0 && `from ${model.short(use.from)}`,
			use.flags & AGAIN && 'again',
			version && size(version.bytes),
			use.flags & INCOMPLETE && 'incomplete',
			use.flags & NOT_ARCHIVED && !version?.why && 'not archived',
			version?.why,
		];

		return this.row(
			`${use.kind} ${use.path}`,
			el(
				'div',
				{ class: 'use' },
				this.fileLink(use.path, n),
				el('span', { class: 'dim' }, facts.filter(Boolean).join(' · ')),
				this.openers(use.path, n, use.made && !(use.flags & AGAIN) ? before : 0),
			),
			this.noted(model.noteOf(use.path, n)),
		);
	}

	// n: of a version, or 0
	fileLink(path, n) {
		const { model } = this;

		return el('button', { class: 'link', title: oneLine(model.paths[path]), onclick: () => this.go.file(path) }, model.name(path, n));
	}

	// Shows what is made, once it is there.
	fill(shown, make) {
		make().then(
			(made) => shown.append(made),
			(error) => shown.append(el('p', { class: 'dim' }, error.message)),
		);
	}

	// A button that copies the command that puts the version back.
	restorer(path, n) {
		return this.copier('copy restore', `shfs restore ${quoted(`${this.model.paths[path]}@${n}`)}`);
	}

	// A button that copies a command, where this is the host to run it on.
	copier(text, command) {
		if (!this.model.source.url) return null;
		return el(
			'button',
			{
				title: command,
				onclick: ({ currentTarget: button }) =>
					navigator.clipboard.writeText(command).then(
						() => (button.textContent = 'copied'),
						() => button.closest('li').append(el('pre', { class: 'text', tabindex: 0 }, command)),
					),
			},
			text,
		);
	}

	// A button that shows what is made below its row, and hides it.
	toggle(text, make) {
		return el(
			'button',
			{
				class: 'open',
				'aria-expanded': 'false',
				onclick: ({ currentTarget: button }) => {
					const item = button.closest('li'),
						was = button.getAttribute('aria-expanded') === 'true';

					item.querySelectorAll('.shown').forEach((old) => old.remove());
					item.querySelectorAll('.open').forEach((other) =>
						other.setAttribute('aria-expanded', 'false'),
					);
					if (was) return;
					button.setAttribute('aria-expanded', 'true');
					const shown = el('div', { class: 'shown' });

					item.append(shown);
					this.fill(shown, make);
				},
			},
			text,
		);
	}

	// Buttons that open what is embedded of a version below its line; before: what to compare with.
	openers(path, n, before) {
		const { model } = this,
			found = [];
		const content = n ? model.version(path, n)?.content : null,
			old = before ? model.version(path, before)?.content : null;
		const has = (index) => index !== null && index !== undefined;

		if (has(content) && has(old))
			found.push(this.toggle('diff', async () => compareView(model, path, before, n)));
		if (has(content)) found.push(this.toggle(isImage(model, path) ? 'image' : 'text', async () => versionView(model, path, n)));
		return el('span', { class: 'openers' }, found);
	}

	// --- a file ---

	file(path) {
		this.show(() => this.fileView(path));
	}

	fileView(path) {
		const { model } = this,
			numbers = model.numbersOf(path).reverse();
		const short = model.short(path),
			slash = short.lastIndexOf('/') + 1;
		const list = el(
			'ul',
			{ class: 'uses' },
			numbers.slice(0, this.whole ? numbers.length : SHOWN).map((n) => this.versionRow(path, n)),
		);

		return [
			this.head(short.slice(slash)),
			el('p', { class: 'path dim' }, oneLine(model.paths[path])),
			el(
				'nav',
				{},
				el(
					'button',
					{
						class: 'primary',
						onclick: () => this.go.graph(path, numbers[0] ?? 0),
						disabled: !numbers.length,
					},
					'Graph of this file',
				),
			),
			el('h3', {}, count(numbers.length, 'version')),
			list,
			numbers.length > SHOWN &&
				!this.whole &&
				this.moreButton(numbers.length - SHOWN, () =>
					list.append(...numbers.slice(SHOWN).map((n) => this.versionRow(path, n))),
				),
		];
	}

	versionRow(path, n) {
		const { model } = this,
			version = model.version(path, n),
			maker = model.makerOf(path, n),
			readers = model.readersOf(path, n);
		const from = version?.from && model.name(version.from.path, version.from.n);
		const facts = [
			version && `${date(version.time)} ${time(version.time)}`,
			version && size(version.bytes),
			version && version.source !== 'written' && version.source,
			from && `from ${from}`,
			version?.why,
		];
		const command = (c, word) =>
			el(
				'div',
				{ class: 'by' },
				el('span', { class: 'dim' }, `${word} `),
				this.swatch(c),
				el('button', { class: 'link mono', onclick: () => this.go.command(c) }, c.title),
			);
		const some = readers.slice(0, 3).map((c) => command(c, 'read by'));

		if (readers.length > 3) {
			const button = el(
				'button',
				{
					class: 'link dim',
					onclick: () =>
						button.parentElement.replaceWith(...readers.slice(3, 100).map((c) => command(c, 'read by'))),
				},
				`and ${readers.length - 3} more`,
			);
			some.push(el('div', { class: 'by' }, button));
		}
		return this.row(
			n,
			el(
				'div',
				{ class: 'use' },
				el('strong', {}, `@${n}`),
				el('span', { class: 'dim' }, facts.filter(Boolean).join(' · ')),
				el(
					'span',
					{ class: 'openers' },
					el('button', { onclick: () => this.go.graph(path, n) }, 'graph'),
					this.restorer(path, n),
					this.openers(path, n, n - 1),
				),
			),
			this.noted(model.noteOf(path, n)),
			maker && command(maker, 'made by'),
			some,
		);
	}
}

// Puts an old row in the place of one that says the same; else what was opened in it into the new one.
function keep(row, old) {
	const shown = old.querySelector('.shown'),
		opened = old.querySelector('.open[aria-expanded="true"]')?.textContent;

	if (row.dataset.sign === old.dataset.sign) return row.replaceWith(old);
	const button = shown && [...row.querySelectorAll('.open')].find((other) => other.textContent === opened);
	if (!button) return;
	row.append(shown);
	button.setAttribute('aria-expanded', 'true');
}
