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

// Notifications. The service sends what has happened, and the sentences are made here, in the language
// that the page is in.
const sentences = {
  en: {
    'rank.passed': ({ names, one }) => `${names} ${one ? 'has' : 'have'} passed you`,
    'like.given': ({ names, one }) => `${names} ${one ? 'likes' : 'like'} your steps`,
    'friend.requested': ({ names, one }) => `${names} ${one ? 'wants' : 'want'} to be your friend`,
    'digest.ready': ({ rank, total }) => `Today you are number ${rank} of ${total} among friends`,
    now: ({ rank, total }) => `You are number ${rank} of ${total} now`,
  },
  zh: {
    'rank.passed': ({ names }) => `${names}超过了你`,
    'like.given': ({ names }) => `${names}给你的步数点了赞`,
    'friend.requested': ({ names }) => `${names}想加你为好友`,
    'digest.ready': ({ rank, total }) => `今天你在好友中是第 ${rank} 名，共 ${total} 人`,
    now: ({ rank, total }) => `你现在是第 ${rank} 名，共 ${total} 人`,
  },
};

// plain returns a name that can't change the direction of the text around it.
const plain = (name) =>
  `\u2068${name.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')}\u2069`;

// addressOf returns what a notification leads to: the row of the first person in the list of its day, as
// long as that is today's, or else what the service says.
function addressOf({ type, people, date, url }) {
  const leads = people.length > 0 && date && type !== 'digest.ready';
  return scope + (leads ? `#/at/${encodeURIComponent(people[0].user_id)}/${date}` : url);
}

async function tell({ type, people: given, rank, total, ...rest }) {
  const people = given ?? [];
  const kept = await caches.match(`${scope}locale`, { cacheName: `told ${scope}` });
  const language = (await kept?.text()) ?? navigator.language;
  const locale = language.startsWith('zh') ? 'zh' : 'en';
  const names = people.map(({ user_id: id, nickname }) => plain(nickname || `#${id}`));
  const values = { rank, total, one: names.length === 1 };
  values.names = new Intl.ListFormat(language).format(names);
  const sentence = sentences[locale][type];
  if (!sentence) return;
  const build = buildOf((await (await matchKept(scope))?.text()) ?? '');
  await registration.showNotification(sentence(values), {
    body: type === 'rank.passed' && rank > 0 && total > 0 ? sentences[locale].now(values) : '',
    lang: language,
    tag: type, // a later one of the same type replaces it
    icon: build && `${scope}${build}page/icon-192.png`,
    data: addressOf({ type, people, ...rest }),
  });
}

addEventListener('push', (event) => event.waitUntil(tell(event.data.json())));

// open shows an address in a window of the page that is open, or in a new one.
async function open(address) {
  const windows = await clients.matchAll({ type: 'window' });
  const page = windows.find(({ url }) => new URL(url).pathname === new URL(scope).pathname);
  if (!page) return clients.openWindow(address);
  return (await page.navigate(address))?.focus();
}

addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});

addEventListener('activate', (event) => event.waitUntil(clients.claim()));
