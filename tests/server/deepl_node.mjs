// DeepL's own Node client against the server at the address given; prints what it got as JSON.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [address, modules] = process.argv.slice(2);
const deepl = createRequire(join(modules, 'index.js'))('deepl-node');
const client = new deepl.DeepLClient('any key', { serverUrl: address, maxRetries: 0 });
const sentence = 'der alte Müller verkauft Mehl';
const failure = async (promise) => {
    try {
        await promise;
        return null;
    } catch (error) {
        return `${error.constructor.name}: ${error.message}`;
    }
};
const found = {};

found.plain = await client.translateText(sentence, null, 'en-US');
found.several = await client.translateText(['ein Haus', sentence], 'de', 'en-GB', { splitSentences: 'nonewlines' });
found.sources = (await client.getSourceLanguages()).map((language) => language.code);
found.targets = (await client.getTargetLanguages()).map((language) => language.code);
found.pairs = await client.getGlossaryLanguagePairs();
found.usage = (await client.getUsage()).character;

const entries = new deepl.GlossaryEntries({ entries: { Müller: 'grinder', 'a & b=c': 'd+e %' } });
const glossary = await client.createGlossary('mills', 'de', 'en', entries);
found.glossary = await client.getGlossary(glossary.glossaryId);
found.listed = (await client.listGlossaries()).map((own) => own.glossaryId).includes(glossary.glossaryId);
found.entries = (await client.getGlossaryEntries(glossary)).entries();
found.constrained = await client.translateText(sentence, 'de', 'en-US', { glossary });
const second = await client.createGlossaryWithCsv('more', 'de', 'en', Buffer.from('Mehl,powder\n'));
found.both = await client.translateText(sentence, 'de', 'en-US', { glossaryIds: [glossary, second] });
await client.deleteGlossary(glossary);
found.deleted = await failure(client.getGlossary(glossary.glossaryId));

const dictionary = (source, target, own) => ({
    sourceLangCode: source,
    targetLangCode: target,
    entries: new deepl.GlossaryEntries({ entries: own }),
});
const multilingual = await client.createMultilingualGlossary('both', [
    dictionary('de', 'en', { Haus: 'house' }),
    dictionary('en', 'de', { house: 'Haus' }),
]);
found.multilingual = await client.getMultilingualGlossary(multilingual.glossaryId);
found.renamed = (await client.updateMultilingualGlossaryName(multilingual, 'renamed')).name;
await client.updateMultilingualGlossaryDictionary(multilingual, dictionary('de', 'en', { Fluss: 'river' }));
const read = async () =>
    (await client.getMultilingualGlossaryDictionaryEntries(multilingual, 'de', 'en')).entries.entries();
found.edited = await read();
await client.replaceMultilingualGlossaryDictionary(multilingual, dictionary('de', 'en', { Mehl: 'flour' }));
found.replaced = await read();
await client.deleteMultilingualGlossaryDictionary(multilingual, 'en', 'de');
found.remaining = (await client.listMultilingualGlossaries())
    .find((own) => own.glossaryId === multilingual.glossaryId)
    .dictionaries.map((own) => `${own.sourceLangCode}-${own.targetLangCode}`);
await client.deleteMultilingualGlossary(multilingual);
found.gone = await failure(client.getMultilingualGlossary(multilingual.glossaryId));
found.unsupported = await failure(client.translateText(sentence, 'de', 'fr'));
const tagged = `<p>${sentence} <x>Haus</x></p>`;
found.tags = await client.translateText(tagged, 'de', 'en-US', { tagHandling: 'xml', ignoreTags: ['x'] });
const folder = mkdtempSync(join(tmpdir(), 'termweave-'));
const translated = join(folder, 'letter.md');
await client.translateDocument(Buffer.from(`# ${sentence}`), translated, 'de', 'en-US', { filename: 'letter.md' });
found.document = readFileSync(translated, 'utf-8');
rmSync(folder, { recursive: true });

console.log(JSON.stringify(found));
