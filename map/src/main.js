// SPDX-License-Identifier: MIT
// The page: reads its data, and lets its parts know of each other.
import { byId, el } from './dom.js';
import { Details } from './details.js';
import { Graph } from './graph.js';
import { Embedded, Live } from './live.js';
import { Model } from './model.js';
import { Overview } from './overview.js';
import { Timeline } from './timeline.js';
import { watchTheme } from './theme.js';
import { count, date, oneLine, time } from './text.js';

const VERSION = 1; // of the data: docs/map.md
const NEAR = 60e6; // commands so near to each other are to be told apart

const embedded = (id) => JSON.parse(byId(id).textContent);

function start(data, live) {

	if (data.shfs !== 'map' || data.version !== VERSION)
		throw new Error('this page and its data are of different versions of shfs');
	const model = new Model(data, live ?? new Embedded(() => embedded('contents')));
	const state = { selected: null, file: null, matches: null, at: -1 };

	// --- what is chosen ---

	function select(c, file) {
		state.selected = c;
		state.file = file;
		timeline.changed();
		timeline.redraw();
	}

	// The address says what is shown.
	function say(what) {
		history.replaceState(null, '', `#${what}`);
	}

	const go = {
		command(c) {
			select(c, null);
			timeline.view.reveal(c.begin, NEAR);
			details.command(c);
			if (c.id) say(c.id);
		},
		file(path) {
			select(null, path);
			details.file(path);
			if (live) say(`file=${live.encode(model.paths[path])}`);
		},
		graph(path, n) {
			details.file(path);
			graph.show(path, n);
			if (live) say(`file=${live.encode(model.paths[path])}&n=${n}`);
		},
		none() {
			select(null, null);
			details.close();
		},
	};
	watchTheme(() => {
		timeline.redraw();
		graph.redraw();
	});
	const details = new Details(model, go),
		graph = new Graph(model, go);
	const timeline = new Timeline(model, state, ({ command, path }) =>
		command ? go.command(command) : path !== undefined ? go.file(path) : go.none(),
	);
	new Overview(timeline);

	// --- the head ---

	let first, last;

	function head() {
		[first, last] = [model.commands[0], model.commands.at(-1)];
		const processes = model.commands.filter((c) => c.id === null).length;
		byId('summary').textContent =
			[
				count(model.commands.length - processes, 'command'),
				processes && count(processes, 'process', 'processes'),
				count(model.sessions.length, 'session'),
				first &&
					(date(first.begin) === date(last.begin)
						? date(first.begin)
						: `${date(first.begin)} to ${date(last.begin)}`),
			]
				.filter(Boolean)
				.join(' · ');
		byId('cut').hidden = !data.cut;
		const name = live ? 'shfs web' : 'shfs map';
		byId('where').textContent = model.root === '/' ? name : oneLine(model.root.slice(0, -1));
		document.title = `${byId('where').textContent} – ${name}`;
		byId('made').textContent =
			`Made ${date(data.made)} ${time(data.made)} by shfs ${data.by}.` +
			(data.contents_left_out ? ` ${count(data.contents_left_out, 'content')} not embedded, for their size.` : '');
		if (data.gaps.length) {
			byId('gaps').hidden = false;
			byId('gaps').textContent =
				`The recording ended unexpectedly ${count(data.gaps.length, 'time')}: commands of those moments may be missing.`;
		}
	}
	head();
	byId('nothing').hidden = model.commands.length > 0;

	// --- search ---

	const search = byId('search'),
		found = byId('found');

	function find() {
		const query = search.value.trim();

		state.matches = query ? new Set((state.list = model.find(query))) : null;
		state.at = -1;
		showFound();
		timeline.changed();
		timeline.redraw();
	}

	function showFound() {
		const n = state.matches?.size;

		found.textContent = !state.matches
			? ''
			: !n
				? 'none'
				: state.at < 0
					? `${n.toLocaleString('en')} found`
					: `${state.at + 1} of ${n.toLocaleString('en')}`;
	}

	function next(way) {
		const n = state.list?.length;

		if (!state.matches || !n) return;
		state.at = state.at < 0 ? (way > 0 ? 0 : n - 1) : (state.at + way + n) % n;
		showFound();
		go.command(model.commands[state.list[state.at]]);
	}

	search.addEventListener('input', find);
	search.addEventListener('keydown', (event) => {
		if (event.key === 'Enter') next(event.shiftKey ? -1 : 1);
		else if (event.key === 'Escape') search.value ? ((search.value = ''), find()) : search.blur();
		else return;
		event.preventDefault();
		event.stopPropagation();
	});

	// --- dates, and other buttons ---

	const from = byId('from'),
		to = byId('to');

	function goDates() {
		const a = from.value ? new Date(`${from.value}T00:00`).getTime() * 1000 : first.begin;
		const b = to.value ? new Date(`${to.value}T24:00`).getTime() * 1000 : timeline.scale.times.at(-1);

		if (a < b) timeline.view.show(Math.max(a, model.commands[0].begin), Math.min(b, timeline.scale.times.at(-1)));
	}

	if (first)
		for (const input of [from, to]) {
			[input.min, input.max] = [date(first.begin), date(last.stop)];
			input.addEventListener('change', goDates);
		}
	const idle = byId('idle'),
		written = byId('written'),
		help = byId('help');
	const flip = (button, change) => {
		const on = button.getAttribute('aria-pressed') !== 'true';

		button.setAttribute('aria-pressed', on);
		change(on);
	};
	const flipIdle = () => flip(idle, (on) => timeline.squeeze(on));
	const flipWritten = () =>
		flip(written, (on) => {
			timeline.written = on;
			timeline.scroll = 0;
			timeline.listFiles();
		});

	function fit() {
		from.value = to.value = '';
		timeline.view.fit();
	}

	idle.addEventListener('click', flipIdle);
	written.addEventListener('click', flipWritten);
	byId('fit').addEventListener('click', fit);
	byId('keys').addEventListener('click', () => help.showModal());
	byId('help-close').addEventListener('click', () => help.close());
	byId('graph-close').addEventListener('click', () => graph.close());
	byId('licences').append(el('pre', {}, byId('licence-texts').textContent.trim()));

	// --- keys ---

	function step(way) {
		const list = state.matches?.size ? state.list.map((i) => model.commands[i]) : model.commands;
		const at = state.selected ? list.indexOf(state.selected) : -1;
		const there = at < 0 ? nearestTo(list) : list[at + way];

		if (there) go.command(there);
	}

	// The one in the middle of what is seen.
	function nearestTo(list) {
		const [a, b] = timeline.view.window(),
			middle = timeline.view.toTime((timeline.view.toX(a) + timeline.view.toX(b)) / 2);

		return list.reduce(
			(best, c) => (!best || Math.abs(c.begin - middle) < Math.abs(best.begin - middle) ? c : best),
			null,
		);
	}

	function escape() {
		if (!graph.root.hidden) graph.close();
		else go.none();
	}

	function openGraph() {
		const c = state.selected,
			written = c && (graph.outputs(c)[0] ?? graph.inputs(c)[0]),
			numbers = state.file !== null ? model.numbersOf(state.file) : [];

		if (written) graph.show(...written);
		else if (numbers.length) graph.show(state.file, numbers.at(-1));
	}

	const keys = {
		ArrowLeft: () => timeline.view.pan(120),
		ArrowRight: () => timeline.view.pan(-120),
		ArrowUp: () => step(-1),
		ArrowDown: () => step(1),
		k: () => step(-1),
		j: () => step(1),
		PageUp: () => timeline.scrollBy(timeline.height, -200),
		PageDown: () => timeline.scrollBy(timeline.height, 200),
		'+': () => timeline.view.by(1.6),
		'=': () => timeline.view.by(1.6),
		'-': () => timeline.view.by(1 / 1.6),
		0: fit,
		f: fit,
		i: flipIdle,
		w: flipWritten,
		g: openGraph,
		n: () => next(1),
		N: () => next(-1),
		'/': () => search.select(),
		'?': () => help.showModal(),
		Escape: escape,
	};

	document.addEventListener('keydown', (event) => {
		const typing = event.target.closest('input, dialog, textarea'),
			scrolls = event.target.closest('pre, .text') && event.key.startsWith('Arrow');

		if (typing || scrolls || event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
		event.preventDefault();
		keys[event.key]();
	});

	// --- the beginning ---

	// What the address asks for: a command, or a file and perhaps its version.
	function follow() {
		const asked = location.hash.slice(1),
			words = new URLSearchParams(asked);
		const path = words.has('file') ? model.paths.findIndex((found) => found === words.get('file') || live?.encode(found) === raw(asked)) : -1;

		if (path >= 0) {
			const n = Number(words.get('n')) || model.numbersOf(path).at(-1);

			if (n) go.graph(path, n);
			else go.file(path);
		} else if (asked.length > 3 && !words.has('file')) {
			const found = model.commands.find((c) => c.id?.startsWith(asked));

			if (found) go.command(found);
			return Boolean(found);
		}
		return path >= 0;
	}
	const raw = (asked) => asked.match(/file=([^&]*)/)[1];

	timeline.resize();
	const shown = follow();
	globalThis.shfsMap = { model, timeline, graph }; // for who looks into it
	if (live) 
		goOn(live, { model, timeline, graph, follow, shown, head }).catch((error) => {
			byId('gaps').hidden = false;
			byId('gaps').textContent = `Not all of it could be loaded: ${error.message}`;
		});
	document.documentElement.dataset.ready = 'yes';
}

// The rest of a page that is served: its first view, the commands before, what is stale.
async function goOn(live, { model, timeline, graph, follow, shown, head }) {
	const results = byId('results');

	results.hidden = false;
	document.documentElement.classList.add('live');
	results.addEventListener('click', () => graph.showResults());
	globalThis.addEventListener('hashchange', follow);
	if (!shown && model.commands.length) graph.showResults();
	async function load() {
		const take = () => {
			model.load();
			timeline.reload();
			head();
		};

		// not with each part: what is done anew takes as long as all before
		while (await live.more()) if (live.data.commands.length >= 2 * model.commands.length) take();
		if (live.data.commands.length > model.commands.length) take();
	}
	await load();
	byId('earlier').hidden = false;
	byId('earlier').addEventListener('click', () => live.further().then(load));
	if (!shown && !graph.root.hidden && !graph.shown && !graph.touched) graph.redraw();
	const asked = location.hash;
	if (!shown && asked && byId('details').hidden) follow();
	graph.stale = new Set((await live.stale()).map(({ path, n }) => `${path}@${n}`));
	if (!graph.touched) graph.redraw();
	document.documentElement.dataset.whole = 'yes';
}

function fail(error) {
	byId('nothing').hidden = false;
	byId('nothing').textContent = `This map cannot be shown: ${error.message}`;
	throw error;
}

const given = embedded('data');
const live = given.live ? new Live() : null;

if (live)
	live.first()
		.then((data) => start(data, live))
		.catch(fail);
else {
	try {
		start(given, null);
	} catch (error) {
		fail(error);
	}
}
