// SPDX-License-Identifier: MIT
// The panel at the side: a command, or a file.
import { AGAIN, INCOMPLETE, NOT_ARCHIVED } from './model.js';
import { byId, el } from './dom.js';
import { compareView, isImage, versionView } from './compare.js';
import { count, date, duration, oneLine, quoted, size, time, visible } from './text.js';
import { ofCommand } from './theme.js';
import { sessionName } from './timeline.js';

const SHOWN = 40; // files of a command, versions of a file, before one asks for more

export class Details {
	// go: {command(c), file(path), graph(path, n)}
	constructor(model, go) {
		Object.assign(this, { model, go, panel: byId('details') });
	}

	show(...children) {
		this.panel.hidden = false;
		this.panel.replaceChildren(...children.flat().filter(Boolean));
		this.panel.scrollTop = 0;
	}

	close() {
		this.panel.hidden = true;
		this.panel.replaceChildren();
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
		const ended = c.end === null ? (c.pid === undefined ? 'no end recorded' : null) : duration(c.end - c.begin);

		this.show(
			this.head(c.id === null ? `process ${c.pid}` : c.id.slice(0, 7), this.swatch(c)),
			el('pre', { class: 'typed', tabindex: 0 }, c.text ? visible(c.text) : c.title),
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
			this.filesOf(c),
		);
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

	filesOf(c) {
		const uses = this.model.uses(c),
			parts = [];
		let kind = null,
			shown = 0,
			list = null;

		for (const use of uses) {
			if (use.kind !== kind) parts.push(el('h3', {}, (kind = use.kind)), (list = el('ul', { class: 'uses' })));
			if (shown++ < SHOWN) list.append(this.useRow(use));
		}
		if (shown > SHOWN)
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
		const button = el('button', { onclick: () => (show(), button.remove()) }, `${n} more`);

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

		return el(
			'li',
			{},
			el(
				'div',
				{ class: 'use' },
				el(
					'button',
					{ class: 'link', title: oneLine(model.paths[use.path]), onclick: () => this.go.file(use.path) },
					model.name(use.path, n),
				),
				el('span', { class: 'dim' }, facts.filter(Boolean).join(' · ')),
				this.openers(use.path, n, use.made && !(use.flags & AGAIN) ? before : 0),
			),
		);
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
		if (!this.model.source.url) return null;
		const command = `shfs restore ${quoted(`${this.model.paths[path]}@${n}`)}`;

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
			'copy restore',
		);
	}

	// Buttons that open what is embedded of a version below its line; before: what to compare with.
	openers(path, n, before) {
		const { model } = this,
			found = [];
		const content = n ? model.version(path, n)?.content : null,
			old = before ? model.version(path, before)?.content : null;
		const has = (index) => index !== null && index !== undefined;
		const toggle = (text, make) =>
			el(
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

		if (has(content) && has(old))
			found.push(toggle('diff', async () => compareView(model, path, before, n)));
		if (has(content)) found.push(toggle(isImage(model, path) ? 'image' : 'text', async () => versionView(model, path, n)));
		return el('span', { class: 'openers' }, found);
	}

	// --- a file ---

	file(path) {
		const { model } = this,
			numbers = model.numbersOf(path).reverse();
		const short = model.short(path),
			slash = short.lastIndexOf('/') + 1;
		const list = el(
			'ul',
			{ class: 'uses' },
			numbers.slice(0, SHOWN).map((n) => this.versionRow(path, n)),
		);

		this.show(
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
				this.moreButton(numbers.length - SHOWN, () =>
					list.append(...numbers.slice(SHOWN).map((n) => this.versionRow(path, n))),
				),
		);
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
		return el(
			'li',
			{},
			el(
				'div',
				{ class: 'use' },
				el('strong', {}, `@${n}`),
				el('span', { class: 'dim' }, facts.filter(Boolean).join(' · ')),
				el('span', { class: 'openers' }, el('button', { onclick: () => this.go.graph(path, n) }, 'graph'), this.restorer(path, n)),
				this.openers(path, n, n - 1),
			),
			maker && command(maker, 'made by'),
			some,
		);
	}
}
