// SPDX-License-Identifier: MIT
// The graph of a version: what it came from, to the left; what came of it, to the right.
import dagre from '@dagrejs/dagre';
import { select } from 'd3-selection';
import { zoom, zoomIdentity } from 'd3-zoom';
import { AGAIN, noteText } from './model.js';
import { byId, svg } from './dom.js';
import { card, cardSize, hasCard, labelAt } from './cards.js';
import { cut, cutLeft, oneLine } from './text.js';
import { ofCommand } from './theme.js';

const NODES_MAX = 60; // more are not read
const RESULTS = 6; // at first, and for each time that one asks for more
const FILES_MAX = 9; // of one command, in one direction
const NARROW = 600; // pixels
const CHAR = 7,
	HEIGHT = 28;

export class Graph {
	// go: as the details have it; state: which commands are wanted
	constructor(model, state, go) {
		Object.assign(this, { model, state, go, stale: new Set(), folded: new Set() });
		Object.assign(this, { root: byId('graph'), picture: byId('picture'), more: byId('graph-more') });
		this.more.addEventListener('click', () => this.showResults(this.wanted + RESULTS));
		this.behaviour = zoom()
			.scaleExtent([0.1, 3])
			.on('zoom', ({ transform, sourceEvent }) => {
				this.touched ||= Boolean(sourceEvent);
				this.picture.firstChild?.setAttribute('transform', transform);
			});
		select(this.picture).call(this.behaviour).on('dblclick.zoom', null);
	}

	// --- what is in it ---

	// What went into a command, and what it made: [path, n].
	inputs(c) {
		const found = [];

		for (const use of this.model.uses(c)) {
			if (use.read && (use.kind === 'read' || use.kind === 'changed')) found.push([use.path, use.read]);
			const version = use.from >= 0 && use.made ? this.model.version(use.path, use.made) : null;
			if (version?.from) found.push([version.from.path, version.from.n]);
		}
		return found;
	}

	outputs(c) {
		return this.model
			.uses(c)
			.filter((use) => use.made && !(use.flags & AGAIN))
			.map((use) => [use.path, use.made]);
	}

	// The latest results: what commands made that is there, and of which no other command has made
	// anything; those first that were made of something.
	results() {
		const { model } = this,
			made = [[], []],
			seen = new Set();

		for (let i = model.commands.length - 1; i >= 0 && made[0].length <= this.wanted; i--) {
			const c = model.commands[i];

			if (this.state.matches && !this.state.matches.has(i)) continue;
			const plain = c.id === null || !this.inputs(c).length;

			for (const [path, n] of this.outputs(c)) {
				if (seen.has(path) || model.latest(path) !== n) continue;
				seen.add(path);
				if (model.readersOf(path, n).every((reader) => reader === c || !this.outputs(reader).length)) made[plain ? 1 : 0].push([path, n]);
			}
		}
		return made[0].length ? made[0] : made[1];
	}

	begin() {
		this.nodes = new Map();
		this.edges = new Map();
		this.cut = 0;
		this.hidden = [];
	}

	search(path, n) {
		this.begin();
		this.walk([
			[this.version(path, n, 0), -1],
			[this.version(path, n, 0), 1],
		]);
	}

	walk(queue) {
		for (let at = 0; at < queue.length; at++) {
			const [node, way] = queue[at];

			for (const next of node.path !== undefined ? this.beside(node, way) : this.around(node, way))
				queue.push([next, way]);
		}
		this.hidden.forEach((link) => link());
	}

	add(key, node) {
		if (this.nodes.has(key)) return [this.nodes.get(key), false];
		if (this.nodes.size >= NODES_MAX) {
			this.cut++;
			return [null, false];
		}
		node.key = key;
		this.nodes.set(key, node);
		return [node, true];
	}

	version(path, n) {
		return this.add(`v${path}@${n}`, { path, n })[0];
	}

	link(from, to) {
		this.edges.set(`${from.key} ${to.key}`, [from, to]);
	}

	// Of a version: who made it; who read it.
	beside(node, way) {
		const { model } = this,
			maker = way < 0 && model.makerOf(node.path, node.n),
			fresh = [];
		const commands = way > 0 ? model.readersOf(node.path, node.n) : maker ? [maker] : [];

		for (const c of commands) {
			const [found, isNew] = this.add(`c${c.index}`, { command: c, folds: new Set() });

			if (!found) continue;
			this.link(...(way < 0 ? [found, node] : [node, found]));
			if (isNew) fresh.push(found);
		}
		return fresh;
	}

	// Of a command: its inputs; what it made.
	around(node, way) {
		const all = way < 0 ? this.inputs(node.command) : this.outputs(node.command),
			fresh = [];

		if (all.length) node.folds.add(way);
		if (this.folded.has(foldOf(node, way))) return this.hide(node, way, all);
		all.slice(0, FILES_MAX).forEach(([path, n]) => {
			const [found, isNew] = this.add(`v${path}@${n}`, { path, n });

			if (!found) return;
			this.link(...(way < 0 ? [found, node] : [node, found]));
			if (isNew) fresh.push(found);
		});
		if (all.length > FILES_MAX) {
			const [rest] = this.add(`r${way}${node.command.index}`, {
				rest: all.length - FILES_MAX,
				command: node.command,
			});

			if (rest) this.link(...(way < 0 ? [rest, node] : [node, rest]));
		}
		return fresh;
	}

	// What is hidden, and is there for something else, has its edges all the same.
	hide(node, way, all) {
		this.hidden.push(() => {
			for (const [path, n] of all) {
				const found = this.nodes.get(`v${path}@${n}`);

				if (found) this.link(...(way < 0 ? [found, node] : [node, found]));
			}
		});
		return [];
	}

	// --- how it is drawn ---

	// again: only if there is something else to be seen, and where it was
	show(path, n, again = false) {
		this.shown = [path, n];
		this.search(path, n);
		this.draw([`v${path}@${n}`], this.model.name(path, n), again);
	}

	// The first view: the workflow of the latest results.
	showResults(wanted = RESULTS, again = false) {
		this.wanted = wanted;
		const found = this.results();

		this.shown = null;
		this.begin();
		const targets = found.slice(0, wanted).map(([path, n]) => this.version(path, n)).filter(Boolean);
		this.walk(targets.map((node) => [node, -1]));
		this.draw(
			targets.map((node) => node.key),
			'Latest results',
			again,
		);
		this.more.hidden = found.length <= wanted;
	}

	// Other commands are wanted.
	filtered() {
		if (!this.root.hidden && !this.shown) this.showResults(this.wanted, true);
	}

	redraw() {
		if (this.root.hidden) return;
		if (this.shown) this.show(...this.shown, true);
		else this.showResults(this.wanted, true);
	}

	draw(targets, title, again) {
		const nodes = [...this.nodes.values()];

		this.targets = new Set(targets);
		for (const node of nodes) {
			node.label = this.label(node);
			node.card = node.path !== undefined && hasCard(this.model, node.path, node.n);
		}
		const sign = JSON.stringify([title, this.cut, targets, nodes.map((node) => this.sign(node)), [...this.edges.keys()]]),
			same = again && sign === this.drawn && !this.root.hidden;

		this.drawn = sign;
		if (same) return;
		const stays = again && this.touched && !this.root.hidden && this.picture.firstChild?.getAttribute('transform'),
			focus = this.picture.contains(document.activeElement) && document.activeElement.dataset.key;

		this.touched &&= Boolean(stays);
		this.more.hidden = true;
		const layout = new dagre.graphlib.Graph()
			.setGraph({ rankdir: 'LR', nodesep: 12, ranksep: 46, marginx: 20, marginy: 20 })
			.setDefaultEdgeLabel(() => ({}));

		for (const node of nodes)
			layout.setNode(
				node.key,
				node.card ? { ...cardSize(this.model, node.path) } : { width: node.label.length * CHAR + 24, height: HEIGHT },
			);
		for (const [from, to] of this.edges.values()) layout.setEdge(from.key, to.key);
		dagre.layout(layout);
		this.root.hidden = false;
		byId('graph-of').textContent = title;
		byId('graph-word').hidden = !this.shown;
		byId('graph-note').textContent = this.note();
		this.picture.replaceChildren(
			svg(
				'g',
				{},
				[...this.edges.values()].map(([from, to]) => this.edge(layout.edge(from.key, to.key))),
				nodes.map((node) => this.node(node, layout.node(node.key))),
			),
		);
		if (focus) this.picture.querySelector(`[data-key="${focus}"]`)?.focus();
		if (stays) this.picture.firstChild.setAttribute('transform', stays);
		else this.fit(layout.graph(), layout.node(targets[0]) ?? { x: 0, y: 0 });
	}

	// All that is seen of a node.
	sign(node) {
		const c = node.command;

		return [node.key, node.label, node.card, c && [ofCommand(c), c.status], [...(node.folds ?? [])].map((way) => this.folded.has(foldOf(node, way))), this.isStale(node), this.noteOf(node)];
	}

	isStale(node) {
		return node.path !== undefined && this.stale.has(`${this.model.paths[node.path]}@${node.n}`);
	}

	noteOf(node) {
		return node.rest ? '' : oneLine(noteText(node.command ?? this.model.noteOf(node.path, node.n)));
	}

	note() {
		if (!this.nodes.size) return 'no results of these commands';
		const commands = [...this.nodes.values()].filter((node) => node.command && !node.rest).length;

		return `${commands} ${commands === 1 ? 'command' : 'commands'}` + (this.cut ? ' · the nearest; there are more' : '') + ' · shfs why is exact';
	}

	label(node) {
		if (node.rest) return `${node.rest} more`;
		if (node.command) return cut(node.command.title, 34);
		return cutLeft(this.model.name(node.path, node.n), hasCard(this.model, node.path, node.n) ? 25 : 34);
	}

	edge({ points }) {
		const [first, ...rest] = points;
		let d = `M${first.x},${first.y}`;

		for (let i = 0; i + 1 < rest.length; i++) {
			const a = rest[i],
				b = rest[i + 1],
				end = i + 2 === rest.length ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };

			d += `Q${a.x},${a.y} ${end.x},${end.y}`;
		}
		if (rest.length === 1) d += `L${rest[0].x},${rest[0].y}`;
		return svg('path', { class: 'edge', d, 'marker-end': 'url(#arrow)' });
	}

	node(node, box) {
		const { x, y, width, height } = box;
		const kind = node.rest ? 'rest' : node.command ? 'command' : 'version';
		const shape = svg('rect', {
			x: -width / 2,
			y: -height / 2,
			width,
			height,
			rx: kind === 'version' && !node.card ? height / 2 : 5,
		});
		const press = () => (node.command ? this.go.command(node.command) : this.pickVersion(node));

		const stale = this.isStale(node),
			noted = this.noteOf(node);
		const full = node.rest ? node.label : node.command ? node.command.title : this.model.name(node.path, node.n);
		const words = [
			node.label,
			node.label !== full && full,
			stale && 'stale: an input has changed, or a step before it',
			noted,
		];

		if (kind === 'command') shape.style.fill = ofCommand(node.command);
		const button = svg(
			'g',
			{
				class: `node ${kind}${this.targets.has(node.key) ? ' target' : ''}${node.command?.status ? ' failed' : ''}${stale ? ' stale' : ''}`,
				'aria-label': words.filter(Boolean).join(', '),
				transform: `translate(${x},${y})`,
				tabindex: 0,
				'data-key': node.key,
				role: 'button',
				onclick: press,
				onkeydown: (event) => {
					if (event.key !== 'Enter' && event.key !== ' ') return;
					event.preventDefault();
					press();
				},
			},
			svg('title', {}, [full, words[2], noted].filter(Boolean).join('\n')),
			shape,
			svg('text', { 'text-anchor': 'middle', dy: '0.35em', y: node.card ? labelAt(this.model, node.path) : null }, node.label),
		);

		// beside the button, whose name is not what is in the file
		const beside =
			(node.card || stale || noted) &&
			svg(
				'g',
				{ class: 'card', 'aria-hidden': 'true', transform: `translate(${x},${y})` },
				node.card && card(this.model, node.path, node.n),
				stale && flag('flag', 'stale', width / 2 - 22, -height / 2),
				noted && flag('flag noted', cut(noted, 10), -width / 2 + 36, -height / 2),
			);
		return [button, beside, [...(node.folds ?? [])].map((way) => this.toggle(node, way, box))];
	}

	// Hides what is beside a command in one direction, or shows it again.
	fold(node, way) {
		const name = foldOf(node, way);

		if (!this.folded.delete(name)) this.folded.add(name);
		this.redraw();
		[...this.picture.querySelectorAll('.fold')].find((button) => button.dataset.fold === name)?.focus();
	}

	// The button for that, at a corner.
	toggle(node, way, { x, y, width, height }) {
		const name = foldOf(node, way),
			folded = this.folded.has(name);
		const label = `${folded ? 'Show' : 'Hide'} what ${cut(node.command.title, 60)} ${way < 0 ? 'read' : 'made'}`;
		const press = () => this.fold(node, way);

		return svg(
			'g',
			{
				class: 'fold',
				'data-fold': name,
				transform: `translate(${x + (way * width) / 2},${y - (-way * height) / 2})`,
				tabindex: 0,
				role: 'button',
				'aria-expanded': String(!folded),
				'aria-label': label,
				onclick: press,
				onkeydown: (event) => {
					if (event.key !== 'Enter' && event.key !== ' ') return;
					event.preventDefault();
					press();
				},
			},
			svg('title', {}, label),
			svg('circle', { r: 9 }),
			svg('path', { d: folded ? 'M-4,0H4M0,-4V4' : 'M-4,0H4' }),
		);
	}

	// The first click shows the file, one more puts it in the middle.
	pickVersion(node) {
		if (this.picked === node.key) this.show(node.path, node.n);
		this.picked = node.key;
		this.go.file(node.path);
	}

	// All of it where it is legible, else what is around the target.
	fit({ width, height }, target) {
		const box = this.picture.getBoundingClientRect();
		const least = this.model.source.url && box.width > NARROW ? 0.45 : 0.75;
		const k = Math.min(1.1, Math.max(least, Math.min(box.width / width, box.height / height)));
		const shift = (room, length, at) =>
			length <= room ? (room - length) / 2 : Math.min(0, Math.max(room - length, room / 2 - at));

		select(this.picture).call(
			this.behaviour.transform,
			zoomIdentity
				.translate(shift(box.width, width * k, target.x * k), shift(box.height, height * k, target.y * k))
				.scale(k),
		);
	}

	close() {
		this.root.hidden = true;
	}
}

function foldOf(node, way) {
	return `${node.command.begin} ${node.command.id} ${way}`; // their numbers change
}

// A word at the edge of a node.
function flag(kind, text, x, y) {
	const width = text.length * 6 + 12;

	return svg(
		'g',
		{ class: kind, transform: `translate(${x},${y})` },
		svg('rect', { x: -width / 2, y: -8, width, height: 16, rx: 8 }),
		svg('text', { 'text-anchor': 'middle', dy: '0.35em' }, text),
	);
}
