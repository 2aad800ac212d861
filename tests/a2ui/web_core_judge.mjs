// Writes the resolved trees of the examples that it is given as a JSON array, as @a2ui/web_core resolves them.
import {readFileSync} from 'node:fs';

const core = new URL('../node_modules/@a2ui/web_core/src/v0_9/', import.meta.url);
const load = name => import(new URL(name, core));
const {MessageProcessor} = await load('processing/message-processor.js');
const {Catalog} = await load('catalog/types.js');
const {NodeResolver} = await load('nodes/node-resolver.js');
const {BASIC_COMPONENTS} = await load('basic_catalog/components/basic_components.js');
const {createBasicCatalogFunctions} = await load('basic_catalog/functions/basic_functions.js');
const {peekValue} = await load('reactivity/signals.js');

const trees = [];
for (const file of process.argv.slice(2)) {
  const document = JSON.parse(readFileSync(file, 'utf8'));
  const messages = Array.isArray(document) ? document : document.messages;
  const {catalogId} = messages.find(message => message.createSurface).createSurface;
  const catalog = new Catalog(catalogId, BASIC_COMPONENTS, createBasicCatalogFunctions({locale: 'en-US'}));
  const processor = new MessageProcessor([catalog]);
  processor.processMessages(messages);
  for (const surface of processor.model.surfacesMap.values()) {
    trees.push(peekValue(new NodeResolver(surface, catalog).rootNode).toJSON());
  }
}
console.log(JSON.stringify(trees));
