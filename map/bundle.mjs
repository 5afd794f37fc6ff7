// SPDX-License-Identifier: MIT
// Makes the page of src/, page.html and style.css, as a C header that query/cmd/map.c fills in.
//
//     node bundle.mjs OUT.h
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const read = (...path) => readFileSync(join(here, ...path), 'utf8');

async function bundle(entry) {
	return build({
		absWorkingDir: here,
		entryPoints: [entry],
		bundle: true,
		minify: true,
		write: false,
		metafile: true,
		format: 'iife',
		target: 'es2022',
		charset: 'ascii',
		legalComments: 'none',
		logLevel: 'warning',
	});
}

// The licence of each package of which something is in the page.
function licences(metafile) {
	const packages = new Set(
		Object.keys(metafile.inputs)
			.map((name) => name.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1])
			.filter(Boolean),
	);

	return [...packages]
		.sort()
		.map((name) => {
			const { version, license } = JSON.parse(read('node_modules', name, 'package.json'));
			const file = readdirSync(join(here, 'node_modules', name)).find((found) => /^licen[cs]e/i.test(found));

			if (!file) throw new Error(`${name} has no licence`);
			return `${name} ${version}: ${license}\n\n${read('node_modules', name, file).trim()}\n`;
		})
		.join('\n----\n\n');
}

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

// more: what the page may load
function policy(script, style, more = '') {
	return (
		`default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ${more}base-uri 'none'; ` +
		"form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
	);
}

function page(csp, script, style, licenceTexts) {
	const parts = { CSP: csp, STYLE: style, SCRIPT: script, LICENCES: licenceTexts };

	for (const text of [script, licenceTexts])
		if (/<\/script|<!--/i.test(text)) throw new Error('what is embedded would end its element');
	return read('page.html').replace(/@(CSP|STYLE|SCRIPT|LICENCES)@/g, (_, name) => parts[name]);
}

function array(name, text) {
	const bytes = [...Buffer.from(text)],
		lines = [];

	for (let i = 0; i < bytes.length; i += 24) lines.push('\t' + bytes.slice(i, i + 24).join(','));
	return `__attribute__((unused)) static const unsigned char shfs_map_${name}[] = {\n${lines.join(',\n')},\n\t0\n};\n`;
}

const [script, style] = [await bundle('src/main.js'), await bundle('style.css')];
const text = (result) => result.outputFiles[0].text.trim();
const parts = [text(script), text(style)];
const live = policy(...parts, "img-src 'self' blob:; connect-src 'self'; ");
const made = (csp) => page(csp, ...parts, licences(script.metafile)).split(/@DATA@|@CONTENTS@/);
const [head, middle, tail] = made(policy(...parts));
const [liveHead] = made(live);
writeFileSync(
	process.argv[2],
	array('head', head) +
		array('middle', middle) +
		array('tail', tail) +
		array('live_head', liveHead) +
		array('live_csp', `${live}; frame-ancestors 'none'`),
);
