// SPDX-License-Identifier: MIT
// Says what is wrong with an RO-Crate: crate.mjs DIRECTORY [SHAPES.ttl...]
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import jsonld from 'jsonld';
import { Parser, Store, DataFactory } from 'n3';
import SHACLValidator from 'rdf-validate-shacl';

const [directory, ...shapes] = process.argv.slice(2);
const text = fs.readFileSync(path.join(directory, 'ro-crate-metadata.json'), 'utf8');
const crate = JSON.parse(text);
const wrong = [];

// nothing is fetched: the library of RO-Crate has the context of 1.2, which is that of 1.1 and more
const { '@context': context, ...about } = createRequire(import.meta.url)('ro-crate/lib/context.json');
const known = /^https:\/\/w3id.org\/ro\/crate\/1.[12]\/context$/;
globalThis.fetch = async (url) => ({ ok: known.test(url), json: async () => about });
const documentLoader = async (url) => {
  if (!known.test(url)) throw new Error(`not at hand: ${url}`);
  return { contextUrl: null, documentUrl: url, document: { '@context': context } };
};

const { Validator } = await import('ro-crate');
const validator = new Validator();
validator.parseJSON({ ...crate, '@context': about['@id'] });
await validator.validate();
for (const r of validator.results)
  if (r.status !== 'success') wrong.push(`${r.id}: ${r.message}`);

// "safe" fails where a term is not in the context
const base = 'https://example.org/crate/';
const quads = await jsonld.toRDF(crate, { base, documentLoader, safe: true, format: 'application/n-quads' });
const data = new Store(new Parser({ format: 'N-Quads' }).parse(quads));

// every thing that is named is described
const described = new Set(crate['@graph'].map((thing) => thing['@id']));
const check = (value) => {
  if (Array.isArray(value)) value.forEach(check);
  else if (value?.['@id'] && !/^https?:/.test(value['@id']) && !described.has(value['@id']))
    wrong.push(`not described: ${value['@id']}`);
};
for (const thing of crate['@graph']) Object.values(thing).forEach(check);
if (described.size !== crate['@graph'].length) wrong.push('described twice');

// the shapes of profiles; they know the root and the workflow by classes of their own
const { namedNode, quad } = DataFactory;
const type = namedNode('http://www.w3.org/1999/02/22-rdf-syntax-ns#type');
const profiles = 'https://github.com/crs4/rocrate-validator/profiles/';
for (const name of ['https://w3id.org/ro/crate/1.1/', `${profiles}ro-crate/`])
  data.add(quad(namedNode(base), type, namedNode(`${name}RootDataEntity`)));
if (crate['@graph'].some((thing) => thing['@id'] === './' && thing.mainEntity))
  data.add(quad(namedNode(`${base}workflow.cwl`), type, namedNode(`${profiles}workflow-ro-crate/MainWorkflow`)));
for (const file of shapes) {
  const parsed = new Parser({ baseIRI: 'urn:shapes' }).parse(fs.readFileSync(file, 'utf8'));
  const report = await new SHACLValidator(new Store(parsed)).validate(data);
  for (const r of report.results)
    wrong.push(`${path.basename(file)}: ${r.focusNode?.value}: ${r.message.map((m) => m.value).join(' ')}`);
}

process.stdout.write(wrong.map((line) => `${line}\n`).join(''));
