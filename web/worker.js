// The page's service worker. It keeps the page's files, so that the page opens without a
// connection, and after an upgrade is the new one or the old one as a whole. It answers for the
// page's document and its files and leaves everything else alone: calls of the API, the console
// and the reference.
//
// It is the same for all builds of the service. A document names its build in the addresses of its
// files, and is kept only when all files of that build are. Thus no file is of another build than
// the document that asks for it.

// patience is how long the service may take to answer with the document, in milliseconds, before
// the kept one is shown.
const patience = 3000;

const { scope } = registration;
const cacheName = `page ${scope}`;
const buildOf = (document) => document.match(/"(assets\/[^/"]+\/)page\//)?.[1];

const matchKept = (request) => caches.match(request, { cacheName });

// keep stores a document and all files of its build, and removes those of builds before the
// last one, whose page may still be open. It stores nothing if a file is missing.
async function keep(response) {
  const cache = await caches.open(cacheName);
  const build = buildOf(await response.clone().text());
  const last = buildOf((await (await cache.match(scope))?.text()) ?? '');
  if (build !== last) {
    const files = await (await fetch(`${scope}${build}page/files.json`)).json();
    await cache.addAll(files.map((name) => `${scope}${build}${name}`));
    const builds = [build, last].map((folder) => scope + folder);
    const isOld = ({ url }) => url !== scope && !builds.some((folder) => url.startsWith(folder));
    await Promise.all((await cache.keys()).filter(isOld).map((request) => cache.delete(request)));
  }
  await cache.put(scope, response);
}

// answerDocument asks the service, and answers with the kept document if there is no answer, or if
// the document's files are not all there: while the processes of a service are replaced, one of
// them may have a document whose files another one does not have. A build of the service whose
// document names no worker removes this one.
async function answerDocument(request) {
  const kept = await matchKept(scope);
  try {
    const response = await fetch(request, kept && { signal: AbortSignal.timeout(patience) });
    if (kept && response.status >= 500) return kept;
    if (!response.ok) return response; // also the redirection to a login
    if (/<html [^>]*data-worker/.test(await response.clone().text())) await keep(response.clone());
    else await Promise.all([registration.unregister(), caches.delete(cacheName)]);
    return response;
  } catch {
    return kept ?? fetch(request);
  }
}

const answerFile = async (request) => (await matchKept(request)) ?? fetch(request);

addEventListener('fetch', (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  const address = origin + pathname;
  if (request.method !== 'GET' || !address.startsWith(scope)) return;
  const path = address.slice(scope.length);
  if (request.mode === 'navigate' && path === '') event.respondWith(answerDocument(request));
  else if (/^assets\/[^/]+\/page\//.test(path)) event.respondWith(answerFile(request));
});

addEventListener('install', (event) => {
  skipWaiting();
  event.waitUntil(fetch(scope, { cache: 'no-cache' }).then(keep));
});

addEventListener('activate', (event) => event.waitUntil(clients.claim()));
