// SPDX-License-Identifier: MIT
// The files below the sessions: a tree whose names are elements, each with a strip on the canvas.
import { byId, el } from './dom.js';
import { colourOf, colours, GROUPS, groupOf } from './theme.js';
import { count, oneLine } from './text.js';
import { Tree } from './tree.js';

export const LANE = 24; // pixels: the height of a row
const BIN = 6, // pixels of a strip that are counted together
	INDENT = 12;

export class Files {
	// state, pick: as the timeline has them; redraw: of all
	constructor(model, state, pick, redraw) {
		Object.assign(this, { model, state, pick, redraw, rows: [], pinned: 0, scroll: 0, active: 0, shown: new Map() });
		this.tree = new Tree(model);
		this.root = byId('tree');
		this.root.addEventListener('keydown', (event) => this.key(event));
		this.root.addEventListener('wheel', (event) => {
			event.preventDefault();
			this.scrollBy(event.deltaY);
		});
		this.root.addEventListener('scroll', () => (this.root.scrollTop = 0)); // what a browser does by itself
	}

	// The model has more: the row at the top stays there.
	reload() {
		this.stays = true;
		this.tree.build();
	}

	place(left, top, height) {
		this.height = height;
		Object.assign(this.root.style, { top: `${top}px`, width: `${left}px`, height: `${height}px` });
	}

	// --- rows ---

	// Lists the files that are used between two moments; first those of what is selected.
	list(from, to) {
		const { model, state, tree } = this,
			marked = new Uint8Array(model.paths.length),
			first = new Set();

		for (const use of state.selected ? model.uses(state.selected) : [])
			if (!tree.written || model.writes(model.kinds.indexOf(use.kind))) first.add(use.path);
		if (state.file !== null) first.add(state.file);
		for (const c of model.commands)
			if (c.begin >= from && c.begin <= to && (!state.matches || state.matches.has(c.index)))
				for (let k = 0; k < c.uses.length; k += 6) if (!tree.written || model.writes(c.uses[k])) marked[c.uses[k + 1]] = 1;
		const pinned = [...first].sort((a, b) => (model.paths[a] < model.paths[b] ? -1 : 1));
		const key = this.rows[this.active]?.key,
			top = this.stays && this.scroll ? this.rows[Math.floor(this.scroll / LANE)]?.key : undefined;
		this.pinned = pinned.length;
		this.rows = [
			...pinned.map((path, i) => ({ key: `first ${path}`, path, level: 1, pinned: true, position: i + 1, size: pinned.length })),
			...tree.rows(marked),
		];
		this.active = Math.max(this.rows.findIndex((row) => row.key === key), 0);
		this.n = marked.reduce((sum, is) => sum + is, 0);
		const now = top === undefined ? -1 : this.rows.findIndex((row) => row.key === top);
		this.stays = false;
		this.scrollBy(now < 0 ? 0 : now * LANE - Math.floor(this.scroll / LANE) * LANE);
	}

	mostScroll() {
		return Math.max(0, this.rows.length * LANE - this.height + 8);
	}

	scrollBy(by) {
		this.scroll = Math.min(Math.max(this.scroll + by, 0), this.mostScroll());
		this.redraw();
	}

	at(y) {
		return this.rows[Math.floor((y + this.scroll) / LANE)];
	}

	// What a click on a row does: it folds a directory, or shows a file.
	press(row) {
		if (row.path !== undefined) return this.pick({ path: row.path });
		const i = this.rows.indexOf(row);

		if (row.rest) this.tree.showMore(row.dir);
		else this.tree.fold(row.dir, !this.tree.isOpen(row.dir));
		this.onFold();
		if (row.rest) this.focus(i); // its row is gone
	}

	// --- names ---

	key(event) {
		const row = this.rows[this.active],
			folder = row?.dir && !row.rest,
			open = folder && this.tree.isOpen(row.dir);
		const up = () => {
			for (let i = this.active - 1; i >= 0; i--) if (this.rows[i].level < row.level) return this.focus(i);
		};
		const keys = {
			ArrowDown: () => this.focus(this.active + 1),
			ArrowUp: () => this.focus(this.active - 1),
			Home: () => this.focus(0),
			End: () => this.focus(this.rows.length - 1),
			PageDown: () => this.focus(this.active + Math.floor(this.height / LANE)),
			PageUp: () => this.focus(this.active - Math.floor(this.height / LANE)),
			ArrowRight: () => (folder && !open ? this.press(row) : this.focus(this.active + (open ? 1 : 0))),
			ArrowLeft: () => (open ? this.press(row) : up()),
			Enter: () => this.press(row),
			' ': () => this.press(row),
		};

		if (!row || event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
		event.preventDefault();
		event.stopPropagation();
		keys[event.key]();
	}

	focus(i) {
		this.active = Math.min(Math.max(i, 0), this.rows.length - 1);
		this.reveal();
		this.showNames();
		this.shown.get(this.rows[this.active].key)?.focus({ preventScroll: true });
	}

	// Brings the active row into sight.
	reveal() {
		const top = this.active * LANE;

		this.scrollBy(top < this.scroll ? top - this.scroll : Math.max(top + LANE - this.height - this.scroll, 0));
	}

	// Only rows that are seen have elements, and the one with the focus.
	showNames() {
		const first = Math.floor(this.scroll / LANE),
			last = Math.min(Math.ceil((this.scroll + this.height) / LANE), this.rows.length),
			wanted = new Set();
		let next = this.root.firstChild;
		const show = (i) => {
			const row = this.rows[i],
				made = this.shown.get(row.key) ?? this.nameOf(row);

			wanted.add(row.key);
			this.shown.set(row.key, made);
			this.dress(made, row, i);
			if (made === next) next = next.nextSibling;
			else this.root.insertBefore(made, next);
		};

		if (this.active < first && this.rows.length) show(this.active);
		for (let i = first; i < last; i++) show(i);
		if (this.active >= last && this.rows.length) show(this.active);
		for (const [key, element] of this.shown)
			if (!wanted.has(key)) {
				element.remove();
				this.shown.delete(key);
			}
		this.root.hidden = !this.rows.length;
	}

	nameOf(row) {
		const element = el(
			'div',
			{ role: 'treeitem', 'aria-level': row.level, onclick: () => this.press(element.row) },
			el('span', { class: 'name' }),
			el('span', { class: 'dim' }),
		);

		element.addEventListener('focus', () => {
			this.active = this.rows.indexOf(element.row);
			this.reveal();
		});
		element.style.paddingLeft = `${10 + (row.level - 1) * INDENT}px`;
		return element;
	}

	dress(element, row, i) {
		const { model, state } = this,
			folder = row.dir && !row.rest;
		const name = row.rest
			? count(row.rest.length, 'more file')
			: folder
				? `${oneLine(row.label)}${row.label.endsWith('/') ? '' : '/'}`
				: oneLine(model.paths[row.path].slice(model.paths[row.path].lastIndexOf('/') + 1));
		const set = (attribute, value) => {
			if (value === null) element.removeAttribute(attribute);
			else if (element.getAttribute(attribute) !== String(value)) element.setAttribute(attribute, value);
		};

		element.row = row;
		element.style.top = `${i * LANE - this.scroll}px`;
		set('class', `row${folder ? ' folder' : ''}${row.pinned ? ' pinned' : ''}${row.rest ? ' rest' : ''}`);
		set('tabindex', i === this.active ? 0 : -1);
		set('aria-expanded', folder ? this.tree.isOpen(row.dir) : null);
		set('aria-selected', row.path !== undefined && row.path === state.file);
		set('aria-posinset', row.position);
		set('aria-setsize', row.size);
		set('aria-label', folder ? `${name}, ${count(row.n, 'file')}` : null);
		set('title', row.path !== undefined ? model.short(row.path) : null);
		const [text, n] = element.children;
		if (text.textContent !== name) text.textContent = name;
		// a pinned file says where it is
		n.textContent = folder ? row.n.toLocaleString('en') : row.pinned ? model.short(row.path).slice(0, -name.length) : '';
	}

	// --- strips ---

	draw(ctx, view, top) {
		const first = Math.floor(this.scroll / LANE),
			last = Math.min(Math.ceil((this.scroll + this.height) / LANE), this.rows.length),
			strips = [];

		for (let i = first; i < last; i++) strips.push(this.bins(this.rows[i], view));
		const most = strips.reduce((found, strip) => Math.max(found, strip.most), 1);
		strips.forEach((strip, k) => {
			const y = top + (first + k) * LANE - this.scroll;

			this.drawRow(ctx, view, this.rows[first + k], strip, most, y);
		});
		this.showNames();
	}

	// Where commands are on the scale, and as what they are shown: for many of them, so not from each one.
	prepare() {
		const { commands } = this.model;

		this.from = Float64Array.from(commands, (c) => c.from);
		this.group = Uint8Array.from(commands, groupOf);
	}

	// How much happened in each few pixels, by the groups of colours.
	bins(row, view) {
		const { model, state, tree } = this,
			{ at, writes, reads } = tree.strip(row),
			n = Math.ceil((view.width - view.left) / BIN) + 1;
		const groups = new Uint32Array(n * GROUPS),
			read = new Uint32Array(n);
		const [from, to] = view.window(),
			folder = row.path === undefined,
			end = lowest(at, model.commands, to + 1);
		let most = 0;

		for (let i = lowest(at, model.commands, from); i < end; i++) {
			if (state.mask && !state.mask[at[i]]) continue;
			const bin = Math.floor((view.at(this.from[at[i]]) - view.left) / BIN),
				uses = writes[i] + (folder && !tree.written ? reads[i] : 0);

			if (bin < 0 || bin >= n) continue;
			if (uses) groups[bin * GROUPS + this.group[at[i]]] += uses;
			else if (!folder) read[bin] = 1 + this.group[at[i]];
		}
		for (let bin = 0; bin < n; bin++) most = Math.max(most, sum(groups, bin));
		return { groups, read, most, n };
	}

	drawRow(ctx, view, row, { groups, read, n }, most, y) {
		const { state } = this,
			bottom = y + LANE - 4,
			scale = (LANE - 8) / Math.log1p(most);

		ctx.fillStyle = row.path !== undefined && row.path === state.file ? colours.mark : row.pinned ? colours.faint : colours.ground;
		ctx.fillRect(0, y, view.width, LANE);
		ctx.fillStyle = colours.line;
		ctx.fillRect(view.left, bottom, view.width - view.left, 1);
		for (let bin = 0; bin < n; bin++) {
			const all = sum(groups, bin),
				x = view.left + bin * BIN;
			let from = bottom;

			if (read[bin] && !all) drawRead(ctx, x + 2.5, y + LANE / 2, read[bin] - 1);
			for (let group = 0; all && group < GROUPS; group++) {
				const part = (groups[bin * GROUPS + group] / all) * Math.max(Math.log1p(all) * scale, 8);

				if (!part) continue;
				ctx.fillStyle = colourOf(group);
				ctx.fillRect(x, from - part, BIN - 1, part);
				from -= part;
			}
		}
	}

	// The command of a row that is near to a place.
	nearest(row, view, x) {
		const { at } = this.tree.strip(row),
			{ commands } = this.model;
		let best = null,
			least = 6;

		for (let i = lowest(at, commands, view.toTime(x - 8)); i < at.length; i++) {
			const c = commands[at[i]],
				from = view.at(c.from),
				away = x < from ? from - x : Math.max(x - from - BIN, 0);

			if (from > x + 8) break;
			if (away <= least && (!this.state.matches || this.state.matches.has(at[i]))) [best, least] = [c, away];
		}
		return best;
	}
}

function drawRead(ctx, x, y, group) {
	ctx.strokeStyle = colourOf(group);
	ctx.fillStyle = colours.ground;
	ctx.lineWidth = 1.5;
	ctx.beginPath();
	ctx.arc(x, y, 3.2, 0, 7);
	ctx.fill();
	ctx.stroke();
	ctx.lineWidth = 1;
}

function sum(groups, bin) {
	let all = 0;

	for (let group = 0; group < GROUPS; group++) all += groups[bin * GROUPS + group];
	return all;
}

// The first of the commands at these places that began then or later.
function lowest(at, commands, from) {
	let low = 0,
		high = at.length;

	while (low < high) {
		const middle = (low + high) >> 1;

		if (commands[at[middle]].begin < from) low = middle + 1;
		else high = middle;
	}
	return low;
}
