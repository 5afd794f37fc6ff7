// SPDX-License-Identifier: MIT
// Sessions and files over time, on one canvas; only what is seen is drawn.
import { AXIS_HEIGHT, drawAxis } from './axis.js';
import { Scale } from './scale.js';
import { colours, ofSession } from './theme.js';
import { count, cut, cutLeft, day, duration, oneLine, time } from './text.js';
import { Viewport } from './viewport.js';
import { byId } from './dom.js';

const LEFT = 220; // pixels for names
const ROW = 30,
	BLOCK = 18,
	LANE = 22,
	BAR = 30; // heights: of a session, a command, a file, the bar of files
const CLOSE = 2; // pixels: what is nearer is drawn once

export class Timeline {
	// state: {selected, file, matches}; pick(what): a command or a file was chosen.
	constructor(model, state, pick) {
		Object.assign(this, {
			model,
			state,
			pick,
			scroll: 0,
			rowScroll: 0,
			files: [],
			squeezed: true,
			written: true,
		});
		this.canvas = byId('time');
		this.tip = byId('tip');
		this.rows = packed(model.rows);
		this.view = new Viewport(
			this.canvas,
			LEFT,
			(y) => y > this.filesTop,
			() => this.changed(),
			(y, dy) => this.scrollBy(y, -dy),
		);
		this.setScale();
		new ResizeObserver(() => this.resize()).observe(this.canvas.parentElement);
		this.canvas.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
		this.canvas.addEventListener('click', (event) => this.click(event));
		this.canvas.addEventListener('mousemove', (event) => this.hover(event));
		this.canvas.addEventListener('mouseleave', () => (this.tip.hidden = true));
	}

	setScale() {
		this.scale = new Scale(this.model.commands, this.squeezed);
		for (const c of this.model.commands) {
			c.from = this.scale.place(c.begin);
			c.to = this.scale.place(c.stop);
		}
		if (this.width) this.view.resize(this.scale, this.width);
	}

	// The model has more.
	reload() {
		const window = this.view.window();

		this.rows = packed(this.model.rows);
		this.order = undefined;
		this.setScale();
		this.resize();
		this.view.show(...window);
	}

	squeeze(squeezed) {
		const window = this.view.window();

		this.squeezed = squeezed;
		this.setScale();
		this.view.show(...window);
		this.draw();
	}

	resize() {
		const box = this.canvas.parentElement.getBoundingClientRect(),
			ratio = devicePixelRatio;

		if (!box.width || !box.height) return;
		[this.width, this.height] = [box.width, box.height];
		this.canvas.width = Math.round(box.width * ratio);
		this.canvas.height = Math.round(box.height * ratio);
		this.ctx = this.canvas.getContext('2d');
		this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.rowsHeight = Math.min(
			this.rows.length * ROW + 12,
			Math.max(0.45 * (this.height - AXIS_HEIGHT), ROW + 12),
		);
		this.filesTop = AXIS_HEIGHT + this.rowsHeight + BAR;
		byId('bar').style.top = `${AXIS_HEIGHT + this.rowsHeight}px`;
		this.view.resize(this.scale, this.width);
		this.changed();
		this.draw();
	}

	// --- what is seen ---

	changed() {
		clearTimeout(this.later);
		this.later = setTimeout(() => this.listFiles(), this.listed ? 120 : 0);
		this.redraw();
	}

	redraw() {
		this.pending ??= requestAnimationFrame(() => {
			this.pending = undefined;
			this.draw();
		});
	}

	// Files that are used in the part of time that is seen; those of what is selected first.
	listFiles() {
		const { model, state } = this,
			[from, to] = this.view.window(),
			seen = new Set(),
			first = new Set();
		const add = (c, set) => {
			for (let k = 0; k < c.uses.length; k += 6)
				if (!this.written || model.writes(c.uses[k])) set.add(c.uses[k + 1]);
		};

		this.listed = true;
		this.order ??= Int32Array.from(model.paths.keys())
			.sort((a, b) => (model.paths[a] < model.paths[b] ? -1 : 1))
			.reduce((rank, path, i) => ((rank[path] = i), rank), new Int32Array(model.paths.length));
		if (state.selected) for (const use of model.uses(state.selected)) first.add(use.path);
		if (state.file !== null) first.add(state.file);
		for (const c of model.commands)
			if (c.begin >= from && c.begin <= to && (!state.matches || state.matches.has(c.index))) add(c, seen);
		const sorted = (set) => [...set].sort((a, b) => this.order[a] - this.order[b]);
		this.firstFiles = first.size;
		this.files = [...first, ...sorted(seen).filter((path) => !first.has(path))];
		byId('files').textContent = count(seen.size, 'file') + (this.written ? ' written here' : ' used here');
		this.scroll = Math.min(this.scroll, this.mostScroll());
		this.redraw();
	}

	mostScroll() {
		return Math.max(0, this.files.length * LANE - (this.height - this.filesTop) + 8);
	}

	scrollBy(y, by) {
		if (y > this.filesTop) this.scroll = Math.min(Math.max(this.scroll + by, 0), this.mostScroll());
		else
			this.rowScroll = Math.min(
				Math.max(this.rowScroll + by, 0),
				Math.max(0, this.rows.length * ROW + 12 - this.rowsHeight),
			);
		this.redraw();
	}

	// --- drawing ---

	draw() {
		const { ctx, width, height } = this;

		if (!ctx) return;
		ctx.fillStyle = colours.ground;
		ctx.fillRect(0, 0, width, height);
		this.clip(LEFT, 0, width, height, () => drawAxis(ctx, this.view, height));
		this.clip(0, AXIS_HEIGHT, width, AXIS_HEIGHT + this.rowsHeight, () => this.drawRows());
		this.clip(0, this.filesTop, width, height, () => this.drawFiles());
		this.clip(LEFT, 24, width, height, () => this.drawCursor());
		this.onDraw?.();
	}

	clip(x0, y0, x1, y1, draw) {
		this.ctx.save();
		this.ctx.beginPath();
		this.ctx.rect(x0, y0, x1 - x0, y1 - y0);
		this.ctx.clip();
		draw();
		this.ctx.restore();
	}

	drawRows() {
		const { ctx } = this,
			[from, to] = this.view.window();

		ctx.textBaseline = 'middle';
		this.rows.forEach((row, i) => {
			const y = AXIS_HEIGHT + 6 + i * ROW - this.rowScroll;

			if (y < AXIS_HEIGHT - ROW || y > this.filesTop) return;
			const seen = row.filter((s) => s.last >= from && s.first <= to);
			this.clip(LEFT, y, this.width, y + ROW, () =>
				seen.forEach((s, k) =>
					this.drawSession(s, y, seen[k + 1] ? this.view.toX(seen[k + 1].first) : this.width + 200),
				),
			);
			this.drawRowName(seen, y);
		});
	}

	drawRowName(seen, y) {
		const { ctx } = this;
		const chosen = seen.find((session) => session === this.state.selected?.of) ?? seen[0];

		if (!chosen) return;
		const more = seen.length > 1 ? ` and ${seen.length - 1} more` : '';
		const n = seen.reduce((sum, session) => sum + session.commands.length, 0);
		ctx.fillStyle = ofSession(chosen.index);
		ctx.fillRect(14, y + ROW / 2 - 5, 10, 10);
		ctx.font = `12px ${colours.ui}`;
		ctx.fillStyle = colours.text;
		ctx.fillText(cut(sessionName(chosen), 16) + more, 32, y + ROW / 2, LEFT - 32 - 52);
		ctx.fillStyle = colours.dim;
		ctx.textAlign = 'right';
		ctx.fillText(n.toLocaleString('en'), LEFT - 12, y + ROW / 2);
		ctx.textAlign = 'left';
	}

	// end: where the next one begins.
	drawSession(session, y, end) {
		const { ctx, view, state } = this,
			x0 = view.toX(session.first),
			x1 = Math.max(view.toX(session.last), x0 + 3);
		const list = session.commands,
			block = ofSession(session.index),
			top = y + (ROW - BLOCK) / 2;

		ctx.fillStyle = ofSession(session.index, 'band');
		ctx.fillRect(x0 - 2, y + 2, x1 - x0 + 4, ROW - 4);
		ctx.font = `11px ${colours.mono}`;
		this.char ??= ctx.measureText('m').width;
		let right = -1e9;
		list.forEach((c, i) => {
			const x = view.at(c.from),
				w = Math.max(view.at(c.to) - x, 3);

			if (x + w < LEFT || x > this.width) return;
			const hit = !state.matches || state.matches.has(c.index);
			if (x + w < right + CLOSE && c !== state.selected && !(state.matches && hit)) return;
			right = x + w;
			ctx.globalAlpha = hit ? 1 : 0.2;
			ctx.fillStyle = block;
			ctx.fillRect(x, top, w, BLOCK);
			if (c.status) {
				ctx.fillStyle = colours.bad;
				ctx.fillRect(x, top + BLOCK - 4, Math.max(w, 3), 4);
			}
			const next = list[i + 1] ? view.at(list[i + 1].from) : end;
			this.drawText(c, x, w, next, y, session.index);
			ctx.globalAlpha = 1;
			if (c === state.selected) {
				ctx.strokeStyle = colours.text;
				ctx.lineWidth = 2;
				ctx.strokeRect(x - 2, top - 2, w + 4, BLOCK + 4);
				ctx.lineWidth = 1;
			}
		});
	}

	// Behind the block, up to the next; a wide block has it within.
	drawText(c, x, w, next, y, index) {
		const { ctx } = this,
			within = w > 10 * this.char;
		const at = within ? Math.max(x, LEFT) + 5 : x + w + 4,
			room = (within ? x + w : next) - at - 6;
		const n = Math.floor(room / this.char);

		if (n < 4) return;
		ctx.fillStyle = within ? '#fff' : ofSession(index, 'ink');
		ctx.fillText(cut(c.title, n), at, y + ROW / 2 + 0.5, room);
	}

	drawFiles() {
		const first = Math.floor(this.scroll / LANE),
			last = first + Math.ceil((this.height - this.filesTop) / LANE);

		for (let i = first; i <= last && i < this.files.length; i++)
			this.drawFile(this.files[i], this.filesTop + i * LANE - this.scroll, i < this.firstFiles);
		this.drawThumb();
		if (!this.files.length) {
			this.ctx.fillStyle = colours.dim;
			this.ctx.font = `12px ${colours.ui}`;
			this.ctx.fillText('no files in this part of time', LEFT + 12, this.filesTop + 24);
		}
	}

	drawFile(path, y, first) {
		const { ctx, model, state } = this,
			short = model.short(path),
			slash = short.lastIndexOf('/') + 1;
		const middle = y + LANE / 2,
			name = cut(short.slice(slash), 26);

		ctx.fillStyle = path === state.file ? colours.mark : first ? colours.faint : colours.ground;
		if (path === state.file || first) ctx.fillRect(0, y, this.width, LANE);
		ctx.strokeStyle = colours.line;
		ctx.beginPath();
		ctx.moveTo(LEFT, Math.round(middle) + 0.5);
		ctx.lineTo(this.width, Math.round(middle) + 0.5);
		ctx.stroke();
		ctx.font = `12px ${colours.ui}`;
		ctx.textBaseline = 'middle';
		ctx.textAlign = 'right';
		const width = Math.min(ctx.measureText(name).width, LEFT - 24);
		ctx.fillStyle = colours.text;
		ctx.fillText(name, LEFT - 12, middle, LEFT - 24);
		ctx.fillStyle = colours.dim;
		ctx.fillText(
			cutLeft(short.slice(0, slash), Math.floor((LEFT - 28 - width) / 6.4)),
			LEFT - 13 - width,
			middle,
		);
		ctx.textAlign = 'left';
		this.clip(LEFT, y, this.width, y + LANE, () => this.drawUses(path, middle));
	}

	drawUses(path, y) {
		const { ctx, model, state, view } = this;
		let lastRead = -1e9,
			lastWrite = -1e9;

		for (let at = model.start[path]; at < model.start[path + 1]; at++) {
			const c = model.commands[model.useCommand[at]],
				writes = model.writes(c.uses[model.usePlace[at]]);
			const x = view.at(c.from),
				last = writes ? lastWrite : lastRead;

			if (x < LEFT - 8 || x > this.width + 8 || (x < last + CLOSE && c !== state.selected)) continue;
			ctx.globalAlpha = !state.matches || state.matches.has(c.index) ? 1 : 0.2;
			if (writes) {
				lastWrite = x;
				ctx.fillStyle = ofSession(c.of.index);
				ctx.fillRect(x, y - 7, 6, 14);
			} else {
				lastRead = x;
				ctx.strokeStyle = ofSession(c.of.index);
				ctx.fillStyle = colours.ground;
				ctx.lineWidth = 1.5;
				ctx.beginPath();
				ctx.arc(x + 3, y, 3.2, 0, 7);
				ctx.fill();
				ctx.stroke();
				ctx.lineWidth = 1;
			}
			ctx.globalAlpha = 1;
		}
	}

	drawThumb() {
		const room = this.height - this.filesTop,
			all = this.files.length * LANE;

		if (all <= room) return;
		this.ctx.fillStyle = colours.line;
		this.ctx.fillRect(
			this.width - 6,
			this.filesTop + (room * this.scroll) / all,
			4,
			Math.max((room * room) / all, 24),
		);
	}

	drawCursor() {
		const c = this.state.selected,
			x = c && Math.round(this.view.at(c.from)) + 0.5;

		if (!c) return;
		this.ctx.strokeStyle = colours.accent;
		this.ctx.setLineDash([2, 3]);
		this.ctx.beginPath();
		this.ctx.moveTo(x, 24);
		this.ctx.lineTo(x, this.height);
		this.ctx.stroke();
		this.ctx.setLineDash([]);
	}

	// --- the mouse ---

	wheel(event) {
		const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;

		event.preventDefault();
		if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.view.pan(-across);
		else if (!event.ctrlKey && (event.offsetY > this.filesTop || event.offsetX < LEFT))
			this.scrollBy(event.offsetY, event.deltaY);
	}

	// The command that is nearest in a list, within some pixels. marks: where they begin alone.
	nearest(list, x, marks) {
		let best = null,
			least = 6;

		for (const c of list) {
			const from = this.view.at(c.from),
				to = marks ? from + 6 : Math.max(this.view.at(c.to), from + 3);
			const away = x < from ? from - x : x > to ? x - to : 0;

			if (away < least || (away === least && best && c.begin > best.begin)) [best, least] = [c, away];
		}
		return best;
	}

	at(x, y) {
		if (y > this.filesTop) {
			const path = this.files[Math.floor((y - this.filesTop + this.scroll) / LANE)];

			if (path === undefined) return {};
			return { path, command: x > LEFT ? this.nearest(this.model.commandsOf(path), x, true) : null };
		}
		const row = this.rows[Math.floor((y - AXIS_HEIGHT - 6 + this.rowScroll) / ROW)];

		if (!row || y < AXIS_HEIGHT || y > AXIS_HEIGHT + this.rowsHeight || x < LEFT) return {};
		return {
			command: this.nearest(
				row.flatMap((s) => s.commands),
				x,
			),
		};
	}

	click(event) {
		const { path, command } = this.at(event.offsetX, event.offsetY);

		if (command) this.pick({ command });
		else if (path !== undefined) this.pick({ path });
		else this.pick({});
	}

	hover(event) {
		const { path, command } = event.buttons ? {} : this.at(event.offsetX, event.offsetY);

		this.canvas.style.cursor = command || path !== undefined ? 'pointer' : 'default';
		this.tip.hidden = !command && path === undefined;
		if (this.tip.hidden) return;
		const when =
			command &&
			`${day(command.begin)}, ${time(command.begin)}` +
				(command.end ? ` · ${duration(command.end - command.begin)}` : '') +
				(command.status ? ` · exit ${command.status}` : '');
		this.tip.replaceChildren();
		this.tip.append(
			...[command && cut(command.title, 300), when, path !== undefined && this.model.short(path)]
				.filter(Boolean)
				.map((line, i) => {
					const div = document.createElement('div');

					div.textContent = line;
					div.className = i ? 'dim' : '';
					return div;
				}),
		);
		const right = Math.min(event.offsetX + 14, this.width - this.tip.offsetWidth - 8);
		const below = event.offsetY + 18 + this.tip.offsetHeight < this.height;
		this.tip.style.left = `${right}px`;
		this.tip.style.top = `${below ? event.offsetY + 18 : event.offsetY - this.tip.offsetHeight - 10}px`;
	}
}

export function sessionName(session) {
	const terminal = session.tty?.replace(/^\/dev\//, '') ?? '';

	return oneLine(`${session.shell || 'shell'} ${terminal}`.trim());
}

// Rows of sessions; one behind the other where they do not overlap.
function packed(sessions) {
	const rows = [];

	for (const s of sessions) {
		const row = s.id !== null && rows.find((r) => r.at(-1).last < s.first && r.at(-1).id !== null);

		if (row) row.push(s);
		else rows.push([s]);
	}
	return rows;
}
