// SPDX-License-Identifier: MIT
// The page: reads its data, and lets its parts know of each other.
import { Address, encode, momentOf, momentText } from './address.js';
import { byId, el } from './dom.js';
import { Details } from './details.js';
import { Filters } from './filters.js';
import { Graph } from './graph.js';
import { Embedded, Live, MOST } from './live.js';
import { Model } from './model.js';
import { News } from './news.js';
import { Overview } from './overview.js';
import { Timeline } from './timeline.js';
import { watchTheme } from './theme.js';
import { count, date, oneLine, time } from './text.js';

const VERSION = 1; // of the data: docs/map.md
const NEAR = 60e6; // commands so near to each other are to be told apart

const FILTERS = ['find', 'host', 'in', 'status', 'kind', 'stale', 'colour'];

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

	const go = {
		command(c, kind) {
			select(c, null);
			timeline.reveal(c, NEAR);
			details.command(c);
			address.step(kind);
		},
		file(path) {
			select(null, path);
			details.file(path);
			address.step();
		},
		graph(path, n) {
			select(null, path);
			details.file(path);
			graph.show(path, n);
			address.step();
		},
		none() {
			select(null, null);
			details.close();
			address.step();
		},
	};
	watchTheme(() => {
		filters.showLegend();
		timeline.redraw();
		repaint();
	});
	const details = new Details(model, go),
		graph = new Graph(model, state, go);
	const timeline = new Timeline(model, state, ({ command, path }) =>
		command ? go.command(command) : path !== undefined ? go.file(path) : go.none(),
	);
	const address = new Address(tell, show),
		filters = new Filters(model, find);

	timeline.onMove = () => address.drift();
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
		byId('summary').title = byId('summary').textContent;
		sayCut();
		byId('nothing').hidden = model.commands.length > 0;
		if (first) for (const input of [byId('from'), byId('to')]) [input.min, input.max] = [date(Math.min(first.begin, model.hollow[0]?.from ?? Infinity)), date(last.stop)];
		const name = live ? 'shfs web' : 'shfs map';
		byId('where').textContent = model.root === '/' ? name : oneLine(model.root.slice(0, -1));
		document.title = `${byId('where').textContent} – ${name}`;
		byId('made').textContent =
			`Made ${date(data.made)} ${time(data.made)} by shfs ${data.by}.` +
			(data.contents_left_out ? ` ${count(data.contents_left_out, 'content')} not embedded, for their size.` : '');
		byId('gaps').hidden = !data.gaps.length; // also what was said of a load that failed
		byId('gaps').textContent =
			`The recording ended unexpectedly ${count(data.gaps.length, 'time')}: commands of those moments may be missing.`;
	}
	head();

	// What there is that is not loaded.
	function sayCut() {
		const missing = model.missing(),
			text = missing
				? `${model.commands.length.toLocaleString('en')} of ${count(model.commands.length + missing, 'command')} and processes are loaded. The others are hollow bars in Time: ` +
					(timeline?.missing > MOST ? 'go there and zoom in, and they are loaded.' : 'they are loaded as you go there.')
				: 'These are the latest; earlier ones are not loaded.';

		byId('cut').hidden = !model.isCut;
		if (live && byId('cut-text').textContent !== text) byId('cut-text').textContent = text; // it is read aloud once
	}

	// --- search ---

	const search = byId('search'),
		found = byId('found');

	// told: by a person, and not by the address
	function find(told, kind) {
		state.list = filters.list();
		state.matches = state.list && new Set(state.list);
		state.mask = state.list && new Uint8Array(model.commands.length);
		for (const i of state.list ?? []) state.mask[i] = 1;
		state.at = told || state.at < 0 || !state.list || !state.selected ? -1 : state.list.indexOf(state.selected.index);
		showFound();
		timeline.changed();
		graph.filtered();
		if (state.colour !== filters.values.colour) repaint();
		state.colour = filters.values.colour;
		if (told) address.step(kind);
	}

	// Colours mean something else.
	function repaint() {
		timeline.files.prepare();
		graph.redraw();
		if (state.selected) details.command(state.selected);
		else if (state.file !== null) details.file(state.file);
	}

	function showFound() {
		const n = state.matches?.size;

		found.textContent = !state.matches
			? ''
			: !n
				? `none${model.isCut ? ' in what is here' : ''}`
				: state.at < 0
					? `${n.toLocaleString('en')} found${model.isCut ? ' in what is here' : ''}`
					: `${state.at + 1} of ${n.toLocaleString('en')}`;
	}

	function next(way) {
		const n = state.list?.length;

		if (!state.matches || !n) return;
		state.at = state.at < 0 ? (way > 0 ? 0 : n - 1) : (state.at + way + n) % n;
		showFound();
		go.command(model.commands[state.list[state.at]], 'walk');
	}

	search.addEventListener('keydown', (event) => {
		if (event.key === 'Enter') next(event.shiftKey ? -1 : 1);
		else if (event.key === 'Escape') search.value ? filters.set('find', '') : search.blur();
		else return;
		event.preventDefault();
		event.stopPropagation();
	});

	// --- dates, and other buttons ---

	const from = byId('from'),
		to = byId('to');

	function goDates() {
		const [least, most] = [timeline.scale.times[0], timeline.scale.times.at(-1)];
		const a = from.value ? new Date(`${from.value}T00:00`).getTime() * 1000 : least;
		const b = to.value ? new Date(`${to.value}T24:00`).getTime() * 1000 : most;

		if (first && a < b) timeline.view.show(Math.max(a, least), Math.min(b, most));
	}

	for (const input of [from, to]) input.addEventListener('change', goDates);
	const idle = byId('idle'),
		written = byId('written'),
		help = byId('help');
	const flip = (button, change) => {
		const on = button.getAttribute('aria-pressed') !== 'true';

		button.setAttribute('aria-pressed', on);
		change(on);
	};
	const flipIdle = () =>
		flip(idle, (on) => {
			timeline.squeeze(on);
			address.step();
		});
	const flipWritten = () =>
		flip(written, (on) => {
			timeline.showWritten(on);
			address.step();
		});

	function fit() {
		from.value = to.value = '';
		timeline.view.fit();
		address.step();
	}

	function closeGraph() {
		graph.close();
		address.step();
	}

	byId('graph-close').addEventListener('click', closeGraph);
	idle.addEventListener('click', flipIdle);
	written.addEventListener('click', flipWritten);
	byId('fit').addEventListener('click', fit);
	byId('keys').addEventListener('click', () => help.showModal());
	byId('help-close').addEventListener('click', () => help.close());
	byId('licences').append(el('pre', {}, byId('licence-texts').textContent.trim()));

	// --- keys ---

	function step(way) {
		const list = state.matches?.size ? state.list.map((i) => model.commands[i]) : model.commands;
		const at = state.selected ? list.indexOf(state.selected) : -1;
		const there = at < 0 ? nearestTo(list) : list[at + way];

		if (there) go.command(there, 'walk');
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
		if (!graph.root.hidden) closeGraph();
		else go.none();
	}

	function openGraph() {
		const c = state.selected,
			written = c && (graph.outputs(c)[0] ?? graph.inputs(c)[0]),
			numbers = state.file !== null ? model.numbersOf(state.file) : [];

		if (written) graph.show(...written);
		else if (numbers.length) graph.show(state.file, numbers.at(-1));
		address.step();
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
		const typing = event.target.closest('input, select, dialog, textarea'),
			scrolls = event.target.closest('pre, .text, #legend') && event.key.startsWith('Arrow');

		if (typing || scrolls || event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
		event.preventDefault();
		keys[event.key]();
	});

	// --- the beginning ---

	// What is shown, for the address.
	function tell() {
		const { view } = timeline,
			moved = view.moved && view.window().map(momentText);
		const drawn = graph.root.hidden ? null : graph.shown,
			same = drawn && drawn[0] === state.file;
		const what = {
			command: state.selected?.id,
			file: state.file === null ? null : model.paths[state.file],
			n: same ? drawn[1] : null,
			graph: drawn && !same ? `${model.paths[drawn[0]]}@${drawn[1]}` : null,
			view: graph.root.hidden ? live && 'time' : !drawn && 'results',
			from: moved && moved[0],
			to: moved && moved[1],
			...Object.fromEntries(FILTERS.map((key) => [key, filters.values[key]])),
			idle: timeline.squeezed ? null : 'all',
			files: timeline.files.tree.written ? null : 'all',
		};

		for (const [name, value] of Object.entries(what)) if (!value) delete what[name];
		return live && what.view === 'results' && Object.keys(what).length === 1 ? {} : what; // that comes first
	}

	const pathOf = (name) => (name ? model.paths.findIndex((known) => known === name || encode(known) === encode(name)) : -1);
	const press = (button, on) => button.setAttribute('aria-pressed', on);

	// Shows what the address asks for; false: something of it is not there.
	function show(asked) {
		const { command, file, n, view, idle: all, files } = asked;
		const c = command && model.commands.find(({ id }) => id?.startsWith(command)),
			path = pathOf(file),
			numbers = path < 0 ? [] : model.numbersOf(path),
			[, name, number] = asked.graph?.match(/^(.*)@(\d+)$/s) ?? [],
			drawn = name ? [pathOf(name), Number(number)] : path >= 0 && n ? [path, Number(n)] : null;

		press(idle, all !== 'all');
		press(written, files !== 'all');
		if (timeline.squeezed !== (all !== 'all')) timeline.squeeze(all !== 'all');
		if (timeline.files.tree.written !== (files !== 'all')) timeline.showWritten(files !== 'all');
		filters.apply(Object.fromEntries(FILTERS.map((key) => [key, asked[key]])));
		const window = [asked.from, asked.to].map(momentOf),
			whole = window.some(Number.isNaN) || window[0] >= window[1];
		const [least, most] = [timeline.scale.times[0], timeline.scale.times.at(-1)],
			[a, b] = [Math.max(window[0], least), Math.min(window[1], most)];
		if (!whole && a < b) timeline.view.show(a, b);
		else timeline.view.fit();
		select(c ?? null, path >= 0 ? path : null);
		if (c) {
			details.command(c);
			timeline.reveal(c, whole ? NEAR : 0);
		} else if (path >= 0) details.file(path);
		else details.close();
		const isKnown = !drawn || (drawn[0] >= 0 && model.numbersOf(drawn[0]).includes(drawn[1]));
		if (drawn && isKnown) graph.show(...drawn);
		else if (view === 'results' || (live && !view && !command && !file && !drawn)) model.commands.length && graph.showResults();
		else graph.close();
		return (!command || Boolean(c)) && (!file || numbers.length > 0) && isKnown && (whole || !first || least <= window[0] || !data.cut || Boolean(data.spans));
	}

	timeline.resize();
	filters.fill(false);
	address.pending = !address.follow() && Boolean(live);
	globalThis.shfsMap = { model, timeline, graph, go }; // for who looks into it
	// What is selected may be there no more, or there may be more to it.
	const renew = () => {
		if (state.selected && model.commands[state.selected.index] !== state.selected) {
			select(null, null);
			details.close();
		} else details.renew();
	};
	if (live) goOn(live, { model, timeline, graph, filters, address, head, sayCut, renew }).catch(sayNotAll);
	document.documentElement.dataset.ready = 'yes';
}

function sayNotAll(error) {
	byId('gaps').hidden = false;
	byId('gaps').textContent = `Not all of it could be loaded: ${error.message}`;
}

function sayAway(error) {
	byId('away').hidden = !error;
	if (error)
		byId('away').textContent =
			error.status === 403
				? 'The server was started anew: open the address that it has printed, and this page goes on, too.'
				: 'The server does not answer: this is as it was. The page goes on once shfs web runs again.';
}

// The rest of a page that is served: the commands before, what is stale; then what is new.
async function goOn(live, { model, timeline, graph, filters, address, head, sayCut, renew }) {
	const results = byId('results');
	let stale = null,
		rest = 0,
		later;

	results.hidden = false;
	document.documentElement.classList.add('live');
	results.addEventListener('click', () => {
		graph.showResults();
		address.step();
	});

	function take(news = false) {
		model.load();
		if (stale) model.markStale(stale);
		timeline.reload(news);
		filters.fill(Boolean(stale));
		filters.changed(false);
		head();
		if (address.pending) address.pending = !address.follow();
	}

	async function load() {
		// not with each part: what is done anew takes as long as all before
		while (await live.more()) if (live.data.commands.length >= 2 * model.commands.length) take();
		if (live.data.commands.length > model.commands.length) take();
		else sayCut();
	}
	// What is in sight, unless it is too much.
	let loading = false;
	async function loadSeen() {
		const missing = () => model.missing(...timeline.view.window());

		sayCut();
		if (loading) return;
		loading = true;
		try {
			for (;;) {
				const [from, to] = timeline.view.window();

				const further = to + (to - from) / 2; // where one may go next

				if (!missing() || missing() > MOST || !(await live.between(from, model.missing(from, further) > MOST ? to : further))) break;
				take();
			}
		} finally {
			loading = false;
		}
	}
	timeline.onList = sayCut;
	const overview = live.data.cut && live.overview().then(() => take()).catch(() => {}); // without it there are the latest
	await load();
	if (address.pending) await overview;
	timeline.onList = () => loadSeen().catch(sayNotAll);
	byId('earlier').hidden = false;
	byId('earlier').addEventListener('click', () => live.further().then(load).catch(sayNotAll));
	// what the address asks for may be long ago
	while (address.pending && live.data.cut) await live.further().then(load);
	if (address.pending) byId('lost').hidden = false;
	address.pending = false;
	if (!graph.root.hidden && !graph.shown && !graph.touched) graph.redraw();
	async function findStale() {
		const began = performance.now();

		stale = new Set((await live.stale()).map(({ path, n }) => `${path}@${n}`));
		rest = 4 * (performance.now() - began); // where it takes long, it is not asked all the time
		graph.stale = stale;
		model.markStale(stale);
		timeline.files.prepare();
		filters.fill(true);
		filters.changed(false);
		graph.redraw();
		renew();
	}

	async function takeNews(mark) {
		const before = model.commands.length;

		if (!(await live.fresh(mark))) return location.reload(); // the address says what is shown
		take(true);
		if (!before) address.follow();
		renew();
		graph.redraw();
		// if it fails, it is asked again with the next news
		later ??= setTimeout(() => findStale().catch(() => {}).finally(() => (later = undefined)), rest);
	}

	const news = new News(live, takeNews, sayAway);
	// All that the server has is shown; for who looks into it.
	const settled = async () => {
		while (news.busy || later !== undefined || (await live.mark()) !== live.data.mark)
			await new Promise((done) => setTimeout(done, 50));
	};

	Object.assign(globalThis.shfsMap, { live, settled });
	await findStale().catch(sayNotAll);
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
