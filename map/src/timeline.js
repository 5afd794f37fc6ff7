// SPDX-License-Identifier: MIT
// Sessions and files over time, on one canvas; only what is seen is drawn.
import { AXIS_HEIGHT, drawAxis } from './axis.js';
import { Scale } from './scale.js';
import { colours, ofCommand } from './theme.js';
import { Files, LANE } from './files.js';
import { count, cut, day, duration, oneLine, time } from './text.js';
import { Viewport } from './viewport.js';
import { byId } from './dom.js';
import { noteText, spread } from './model.js';
import { drawBar } from './overview.js';

const LEFT = 220, // pixels for names
	LEFT_NARROW = 130,
	NARROW = 600; // pixels, where there is not much room
const ROW = 30,
	BLOCK = 18,
	BAR = 30; // heights: of a session, a command, the bar of files
const HOLLOW = 6; // pixels: the width of a bar of what is not loaded
const CLOSE = 2; // pixels: what is nearer is drawn once

export class Timeline {
	// state: {selected, file, matches}; pick(what): a command or a file was chosen.
	constructor(model, state, pick) {
		Object.assign(this, {
			model,
			state,
			pick,
			rowScroll: 0,
			squeezed: true,
			left: LEFT,
		});
		this.canvas = byId('time');
		this.tip = byId('tip');
		this.rows = packed(model.rows);
		this.files = new Files(model, state, pick, () => this.redraw());
		this.files.onFold = () => this.listFiles();
		this.view = new Viewport(
			this.canvas,
			LEFT,
			(y) => y > this.filesTop,
			() => {
				this.changed();
				if (!this.still) this.onMove?.();
			},
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
		this.hollow = this.model.hollow.flatMap(spread);
		this.scale = new Scale(this.model.commands, this.squeezed, this.hollow);
		this.places = Float64Array.from(this.hollow, ({ t }) => this.scale.place(t));
		for (const c of this.model.commands) {
			c.from = this.scale.place(c.begin);
			c.to = this.scale.place(c.stop);
		}
		this.files.prepare();
		if (this.width) this.view.resize(this.scale, this.width);
	}

	// The model has more: earlier ones, or news. These are in sight, unless one has moved.
	reload(news = false) {
		const window = this.view.window(),
			{ moved } = this.view;

		this.rows = packed(this.model.rows);
		this.files.reload();
		this.setScale();
		this.resize();
		if (news && !moved) window[1] = this.scale.times.at(-1);
		this.view.show(...window);
		this.view.moved = moved; // nobody did that
	}

	// Brings a command into sight; near: as for the view, 0: only its session.
	reveal(c, near) {
		const top = this.rows.findIndex((row) => row.includes(c.of)) * ROW;

		if (near) this.view.reveal(c.begin, near);
		if (top < this.rowScroll || top + ROW + 12 > this.rowScroll + this.rowsHeight)
			this.scrollBy(0, top - this.rowScroll - (this.rowsHeight - ROW) / 2);
	}

	squeeze(squeezed) {
		const window = this.view.window(),
			{ moved } = this.view;

		this.squeezed = squeezed;
		this.setScale();
		this.view.show(...window);
		this.view.moved = moved;
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
		this.left = this.view.left = this.width < NARROW ? LEFT_NARROW : LEFT;
		this.files.place(this.left, this.filesTop, Math.max(this.height - this.filesTop, 0));
		this.still = true; // nobody moved
		this.view.resize(this.scale, this.width);
		this.still = false;
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

	listFiles() {
		const { files } = this;

		this.listed = true;
		files.list(...this.view.window());
		this.missing = this.model.missing(...this.view.window());
		byId('files').textContent =
			count(files.n, 'file') +
			(files.tree.written ? ' written here' : ' used here') +
			(this.missing ? ` · about ${count(this.missing, 'command')} not loaded` : '');
		this.onList?.();
	}

	showWritten(written) {
		this.files.tree.showWritten(written);
		this.listFiles();
	}

	scrollBy(y, by) {
		if (y > this.filesTop) this.files.scrollBy(by);
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
		this.clip(this.left, 0, width, height, () => drawAxis(ctx, this.view, height));
		this.clip(this.left, AXIS_HEIGHT, width, AXIS_HEIGHT + this.rowsHeight, () => this.drawHollow());
		this.clip(0, AXIS_HEIGHT, width, AXIS_HEIGHT + this.rowsHeight, () => this.drawRows());
		this.clip(0, this.filesTop, width, height, () => this.drawFiles());
		this.clip(this.left, 24, width, height, () => this.drawCursor());
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

	// How much there is that is not loaded.
	drawHollow() {
		const { ctx, view, hollow, left } = this,
			bars = new Float64Array(Math.ceil((this.width - left) / HOLLOW));

		for (let k = 0; k < this.places.length; k++) {
			const i = Math.floor((view.at(this.places[k]) - left) / HOLLOW);

			if (i >= 0 && i < bars.length) bars[i] += hollow[k].n;
		}
		const most = Math.log1p(bars.reduce((a, b) => Math.max(a, b), 1)),
			bottom = AXIS_HEIGHT + this.rowsHeight;
		bars.forEach((n, i) => n && drawBar(ctx, left + i * HOLLOW, bottom, HOLLOW - 1, (Math.log1p(n) / most) * (this.rowsHeight - 12)));
	}

	drawRows() {
		const { ctx } = this,
			[from, to] = this.view.window();

		ctx.textBaseline = 'middle';
		this.rows.forEach((row, i) => {
			const y = AXIS_HEIGHT + 6 + i * ROW - this.rowScroll;

			if (y < AXIS_HEIGHT - ROW || y > this.filesTop) return;
			const seen = row.filter((s) => s.last >= from && s.first <= to);
			this.clip(this.left, y, this.width, y + ROW, () =>
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
		ctx.font = `12px ${colours.ui}`;
		ctx.fillStyle = colours.text;
		ctx.fillText(cut(sessionName(chosen), this.left < LEFT ? 9 : more ? 16 : 22) + more, 14, y + ROW / 2, this.left - 14 - 52);
		ctx.fillStyle = colours.dim;
		ctx.textAlign = 'right';
		ctx.fillText(n.toLocaleString('en'), this.left - 12, y + ROW / 2);
		ctx.textAlign = 'left';
	}

	// end: where the next one begins.
	drawSession(session, y, end) {
		const { ctx, view, state } = this,
			x0 = view.toX(session.first),
			x1 = Math.max(view.toX(session.last), x0 + 3);
		const list = session.commands,
			top = y + (ROW - BLOCK) / 2;

		ctx.fillStyle = colours.faint;
		ctx.fillRect(x0 - 2, y + 2, x1 - x0 + 4, ROW - 4);
		ctx.font = `11px ${colours.mono}`;
		this.char ??= ctx.measureText('m').width;
		let right = -1e9;
		list.forEach((c, i) => {
			const x = view.at(c.from),
				w = Math.max(view.at(c.to) - x, 3);

			if (x + w < this.left || x > this.width) return;
			const hit = !state.matches || state.matches.has(c.index);
			if (x + w < right + CLOSE && c !== state.selected && !(state.matches && hit)) return;
			right = x + w;
			ctx.globalAlpha = hit ? 1 : 0.2;
			ctx.fillStyle = ofCommand(c);
			ctx.fillRect(x, top, w, BLOCK);
			if (c.status) {
				ctx.fillStyle = colours.bad;
				ctx.fillRect(x, top + BLOCK - 4, Math.max(w, 3), 4);
				ctx.fillStyle = colours.ground;
				ctx.fillRect(x, top + BLOCK - 5, Math.max(w, 3), 1);
			}
			if (c.tags) drawNoted(ctx, x, top);
			const next = list[i + 1] ? view.at(list[i + 1].from) : end;
			this.drawText(c, x, w, next, y);
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
	drawText(c, x, w, next, y) {
		const { ctx } = this,
			within = w > 10 * this.char;
		const at = within ? Math.max(x, this.left) + 5 : x + w + 4,
			room = (within ? x + w : next) - at - 6;
		const n = Math.floor(room / this.char);

		if (n < 4) return;
		ctx.fillStyle = within ? colours.ground : ofCommand(c);
		ctx.fillText(cut(c.title, n), at, y + ROW / 2 + 0.5, room);
	}

	drawFiles() {
		this.files.draw(this.ctx, this.view, this.filesTop);
		this.drawThumb();
		if (!this.files.rows.length) {
			this.ctx.fillStyle = colours.dim;
			this.ctx.font = `12px ${colours.ui}`;
			this.ctx.fillText(this.missing ? 'what was done here is not loaded' : 'no files in this part of time', this.left + 12, this.filesTop + 24);
		}
	}

	drawThumb() {
		const room = this.height - this.filesTop,
			all = this.files.rows.length * LANE;

		if (all <= room) return;
		this.ctx.fillStyle = colours.line;
		this.ctx.fillRect(
			this.width - 6,
			this.filesTop + (room * this.files.scroll) / all,
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
		else if (!event.ctrlKey && (event.offsetY > this.filesTop || event.offsetX < this.left))
			this.scrollBy(event.offsetY, event.deltaY);
	}

	// The command that is nearest in a list, within some pixels.
	nearest(list, x) {
		let best = null,
			least = 6;

		for (const c of list) {
			const from = this.view.at(c.from),
				to = Math.max(this.view.at(c.to), from + 3);
			const away = x < from ? from - x : x > to ? x - to : 0;

			if (away < least || (away === least && best && c.begin > best.begin)) [best, least] = [c, away];
		}
		return best;
	}

	at(x, y) {
		if (y > this.filesTop) {
			const row = this.files.at(y - this.filesTop);

			return row ? { row, path: row.path, command: this.files.nearest(row, this.view, x) } : {};
		}
		const row = this.rows[Math.floor((y - AXIS_HEIGHT - 6 + this.rowScroll) / ROW)];

		if (!row || y < AXIS_HEIGHT || y > AXIS_HEIGHT + this.rowsHeight || x < this.left) return {};
		return {
			command: this.nearest(
				row.flatMap((s) => s.commands),
				x,
			),
		};
	}

	click(event) {
		const { row, path, command } = this.at(event.offsetX, event.offsetY);

		if (command) this.pick({ command });
		else if (path !== undefined) this.pick({ path });
		else if (row) this.files.press(row);
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
			...[command && cut(command.title, 300), when, command?.tags && cut(oneLine(noteText(command)), 300), path !== undefined && this.model.short(path)]
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

// A corner that is turned down: it has a note, or a tag.
function drawNoted(ctx, x, top) {
	ctx.fillStyle = colours.accent;
	ctx.strokeStyle = colours.ground;
	ctx.beginPath();
	ctx.moveTo(x - 3, top - 4);
	ctx.lineTo(x + 7, top - 4);
	ctx.lineTo(x - 3, top + 6);
	ctx.closePath();
	ctx.fill();
	ctx.stroke();
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
