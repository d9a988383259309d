// The operators' console: session and navigation.
import { clientOf, fetchJSON, onRefused, sessionClient, useFetch } from '../page/data.js';
import { ErrorBoundary, LanguageButton, lazy, Skeleton } from '../page/components.js';
import { formatNumber, locale, setLocale, t } from '../page/i18n.js';
import { html, render, useCallback, useEffect, useRef, useState } from '../page/view.js';
import { List } from './list.js';
import { lists } from './lists.js';
import { Overview } from './overview.js';
import { refreshEvery } from './parts.js';
import { Entrance, tokenCommand, TokenForm } from '../page/sign-in.js';
import { assetOf, basePath, read, sessionKey } from '../page/storage.js';
import './texts.js';

const isDemo = document.documentElement.hasAttribute('data-demo');
const hasCodes = document.documentElement.hasAttribute('data-codes');
const toastTime = 4500;

const boards = lazy(() => import('./boards.js').then(({ Boards }) => Boards));
const competitions = lazy(() =>
  import('./competitions.js').then(({ Competitions }) => Competitions),
);
const users = lazy(() => import('./users.js').then(({ Users }) => Users));
const listScreen = ({ screen, path, ...props }) =>
  html`<${List} ...${props} name=${screen} list=${lists[screen]} initial=${initialOf(screen, path)} />`;

// Screens by the first part of the address.
const screens = {
  overview: Overview,
  boards,
  competitions,
  users,
  ...Object.fromEntries(Object.keys(lists).map((name) => [name, listScreen])),
};

// The navigation: each entry with its screens, the first of which it leads to.
const navigation = {
  overview: ['overview'],
  boards: ['boards', 'competitions'],
  users: ['users'],
  work: ['reviews', 'holds', 'deadLetters', 'deliveries', 'runs'],
  records: ['corrections', 'erasures', 'audit'],
};

// waitingOf returns how much waits for somebody on a screen.
const waitingOf = (screen, work) =>
  work?.[
    {
      reviews: 'reviews_open',
      holds: 'holds_open',
      deadLetters: 'dead_letters',
      deliveries: 'deliveries_failed',
      runs: 'archive_failed',
    }[screen]
  ] ?? 0;

// initialOf returns the filter with which a list is opened: that in an address such as
// #/deliveries/state=failed, or the list's own.
const initialOf = (screen, [text]) =>
  text ? Object.fromEntries(new URLSearchParams(text)) : (lists[screen].initial ?? {});

const decode = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

// useRoute returns [screen, path, hash]: the screen's name, and the parts of the address
// after it.
function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const change = () => setHash(location.hash);
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  const [name, ...path] = hash.replace(/^#\/?/, '').split('/');
  return [Object.hasOwn(screens, name) ? name : 'overview', path.map(decode), hash];
}

function SignIn({ signIn, error, onLocale }) {
  const [{ data }] = useFetch(null, isDemo ? '/demo/operator' : null);
  const [keep, setKeep] = useState(false);
  const link = hasCodes && html`<a class="docs" href="./">${t('signInOnPage')}</a>`;
  return html`<${Entrance} title=${t('console')} link=${link} onLocale=${onLocale}>
    <${TokenForm}
      label=${t('adminToken')}
      hint=${t('adminTokenHint', { command: tokenCommand('mei --scope admin') })}
      wrong=${error && t(error)}
      action=${t('enter')}
      known=${data?.token}
      signIn=${(token) => signIn(token, keep)}
    >
      <label class="check">
        <input
          type="checkbox"
          id="keep"
          checked=${keep}
          onChange=${(event) => setKeep(event.target.checked)}
        />${t('keepSession')}
      </label>
    <//>
  <//>`;
}

// Links leads to screens, with how much waits on each.
function Links({ label, kind, entries, work }) {
  const link = ({ name, screens: led, current }) => {
    const waiting = led.reduce((total, screen) => total + waitingOf(screen, work), 0);
    return html`<a
      key=${name}
      href=${led[0] === 'overview' ? '#/' : `#/${led[0]}`}
      aria-current=${current ? 'page' : undefined}
      >${t(name)}${
        waiting > 0 &&
        html` <span class="waits">
          ${formatNumber(waiting)}<span class="visually-hidden"> ${t('waiting')}</span>
        </span>`
      }</a
    >`;
  };
  return html`<nav class=${kind} aria-label=${label}>${entries.map(link)}</nav>`;
}

// Layout is around a screen. Without signOut the operator is signed in by the page, where they sign out.
function Layout({ screen, work, signOut, onLocale, children }) {
  const skip = (event) => {
    event.preventDefault();
    document.getElementById('main').focus();
  };
  const [group, inGroup] = Object.entries(navigation).find(([, names]) => names.includes(screen));
  const groups = Object.entries(navigation).map(([name, names]) => ({
    name,
    screens: names,
    current: name === group,
  }));
  const beside = inGroup.map((name) => ({ name, screens: [name], current: name === screen }));
  return html`<a class="skip" href="#main" onClick=${skip}>${t('skip')}</a>
    <div class="console">
      <header class="console-top">
        <a class="brand" href="#/" aria-label=${t('console')}>
          <img src=${assetOf('icon.svg')} alt="" width="28" height="28" /><span>${t('console')}</span>
        </a>
        <${Links} label=${t('main')} kind="console-nav" entries=${groups} work=${work} />
        <div class="account">
          <${LanguageButton} onChange=${onLocale} />
          ${
            signOut
              ? html`<button class="language" onClick=${signOut}>${t('leave')}</button>`
              : html`<a class="language" href="./#/me">${t('profile')}</a>`
          }
        </div>
      </header>
      <main id="main" class="console-main" tabindex="-1">
        ${beside.length > 1 && html`<${Links} label=${t(group)} kind="beside" entries=${beside} work=${work} />`}
        ${children}
      </main>
    </div>`;
}

// useToast returns [toast, notify]; notify(text) shows a message for a short time.
function useToast() {
  const [message, setMessage] = useState(null);
  const timer = useRef(0);
  const notify = useCallback((text) => {
    clearTimeout(timer.current);
    setMessage({ text, id: Date.now() });
    timer.current = setTimeout(() => setMessage(null), toastTime);
  }, []);
  return [
    html`<div class="message" role="status" aria-live="polite">
      ${message && html`<p key=${message.id}>${message.text}</p>`}
    </div>`,
    notify,
  ];
}

// signInError returns the key of the text about a token that does not work, or about a session.
function signInError({ status }, bySession) {
  if (bySession && (status === 401 || status === 403)) return 'noOperator';
  if (status === 401) return 'badToken';
  if (status === 403) return 'notAdmin';
  return status === 0 ? 'offlineHint' : 'unavailable';
}

// Where the tab keeps a token over a reload. Below a path, another app of the origin may have
// the same key.
const tokenKey = `${basePath}/console`;

// keptToken returns the token that the tab keeps, or null.
function keptToken() {
  try {
    return sessionStorage.getItem(tokenKey);
  } catch {
    return null; // there is no storage
  }
}

// keepToken lets the tab keep a token; null for none.
function keepToken(token) {
  try {
    if (token) sessionStorage.setItem(tokenKey, token);
    else sessionStorage.removeItem(tokenKey);
  } catch {
    // The token is lost when the page is reloaded.
  }
}

// A login is {client, token} by a token, and {client} by the session of whoever is signed in on the page, which gives
// tokens of scope admin to operators.
const loginOf = (token) => ({ client: clientOf(token), token });

// firstLogin returns the login of the token that the tab has kept, of a demo's operator or of a session, or null.
async function firstLogin() {
  const token = keptToken() ?? (isDemo ? (await fetchJSON(null, '/demo/operator')).token : null);
  if (token) return loginOf(token);
  return read(sessionKey) && { client: sessionClient('admin') };
}

// useSession returns {client, starting, error, signIn, signOut}. A login is tried before it is
// used. A token is in memory only, unless the operator wants to keep it; then it stays as long as
// the tab. There is no signOut for a session.
function useSession() {
  const [login, setLogin] = useState(null);
  const [error, setError] = useState('');
  const [starting, setStarting] = useState(true);
  const enter = useCallback(async (tried, keep) => {
    try {
      await fetchJSON(tried.client, '/v1/admin/status');
      if (keep) keepToken(tried.token);
      setError('');
      setLogin(tried);
    } catch (problem) {
      if (problem.status === 401 || problem.status === 403) keepToken(null);
      setError(signInError(problem, !tried.token));
    }
  }, []);
  const signIn = (token, keep) => enter(loginOf(token), keep);
  useEffect(() => {
    firstLogin()
      .then((known) => known && enter(known))
      .catch(() => {}) // the form asks for a token
      .then(() => setStarting(false));
  }, []);
  useEffect(() => {
    onRefused((refused) => {
      if (refused !== login?.client) return;
      keepToken(null);
      setLogin(null);
      setError(login.token ? 'badToken' : 'noOperator');
    });
  }, [login]);
  const signOut = () => {
    keepToken(null);
    setLogin(null);
    location.hash = '#/';
  };
  return { client: login?.client, starting, error, signIn, signOut: login?.token && signOut };
}

// useSearchKey lets / lead to the search of the screen, or to that for users.
function useSearchKey() {
  useEffect(() => {
    const field = () => document.querySelector('[role=search] :is(input, select)');
    const press = (event) => {
      const typing = event.target.closest?.('input, select, textarea, dialog');
      if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      if (field()) {
        field().focus();
        return;
      }
      location.hash = '#/users/';
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

function App() {
  const { client, starting, error, signIn, signOut } = useSession();
  const [screen, path, hash] = useRoute();
  const [shownLocale, showLocale] = useState(locale);
  useSearchKey();
  const [toast, notify] = useToast();
  const status = useFetch(client, client && '/v1/admin/status', refreshEvery);
  const opened = useRef(false);
  useEffect(() => {
    document.title = `${t(screen)} · Stepboard`;
  }, [hash, shownLocale]);
  useEffect(() => {
    const first = document.querySelector('[data-first]') ?? document.querySelector('main h1');
    if (opened.current) first?.focus();
    opened.current = Boolean(client);
  }, [hash, client]);
  const onLocale = (newLocale) => {
    setLocale(newLocale);
    showLocale(newLocale);
  };
  if (!client && starting) return html`<main class="console-main"><${Skeleton} /></main>`;
  if (!client) return html`<${SignIn} ...${{ signIn, error, onLocale }} />`;
  const Screen = screens[screen];
  const { work } = status[0].data ?? {};
  return html`<${Layout} ...${{ screen, work, signOut, onLocale }}>
      <${ErrorBoundary} hash=${hash}>
        <${Screen} key=${hash} ...${{ client, screen, path, notify, status }} />
      <//>
    <//>
    ${toast}`;
}

render(html`<${App} />`, document.getElementById('app'));
