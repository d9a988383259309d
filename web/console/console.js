// The operators' console: session and navigation.
import { fetchJSON, onRefusedToken, useFetch } from '../assets/data.js';
import { ErrorBoundary, LanguageButton, lazy, TokenForm } from '../assets/components.js';
import { locale, setLocale, t } from '../assets/i18n.js';
import { html, render, useCallback, useEffect, useRef, useState } from '../assets/view.js';
import { List } from './list.js';
import { lists } from './lists.js';
import { Overview } from './overview.js';
import './texts.js';

const isDemo = document.documentElement.hasAttribute('data-demo');
const toastTime = 4500;

const boards = lazy(() => import('./boards.js').then(({ Boards }) => Boards));
const users = lazy(() => import('./users.js').then(({ Users }) => Users));
const listScreen = ({ screen, path, ...props }) =>
  html`<${List} ...${props} name=${screen} list=${lists[screen]} initial=${filterOf(path[0])} />`;

// Screens by the first part of the address, in the order of the navigation.
const screens = {
  overview: Overview,
  boards,
  users,
  ...Object.fromEntries(Object.keys(lists).map((name) => [name, listScreen])),
};

// filterOf returns the filter in an address such as #/deliveries/state=failed.
const filterOf = (text = '') => Object.fromEntries(new URLSearchParams(text));

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
  return html`<${TokenForm}
    title=${t('console')}
    label=${t('adminToken')}
    hint=${t('adminTokenHint', { command: 'stepboard token --user mei --scope admin' })}
    wrong=${error && t(error)}
    action=${t('enter')}
    known=${data?.token}
    ...${{ signIn, onLocale }}
  />`;
}

// reveal scrolls to a link of the navigation, which phones have no room for.
const reveal = (link) => link?.scrollIntoView({ block: 'nearest', inline: 'center' });

function Layout({ screen, signOut, onLocale, children }) {
  const nav = useRef(null);
  useEffect(() => reveal(nav.current.querySelector('[aria-current]')), [screen]);
  const skip = (event) => {
    event.preventDefault();
    document.getElementById('main').focus();
  };
  const link = (name) => html`<a
    key=${name}
    href=${name === 'overview' ? '#/' : `#/${name}`}
    aria-current=${name === screen ? 'page' : undefined}
    onFocus=${(event) => reveal(event.currentTarget)}
    >${t(name)}</a
  >`;
  return html`<a class="skip" href="#main" onClick=${skip}>${t('skip')}</a>
    <header class="console-top">
      <a class="brand" href="#/" aria-label=${t('console')}>
        <img src="assets/icon.svg" alt="" width="28" height="28" /><span>${t('console')}</span>
      </a>
      <div class="account">
        <${LanguageButton} onChange=${onLocale} />
        <button class="language" onClick=${signOut}>${t('leave')}</button>
      </div>
      <nav aria-label=${t('main')} ref=${nav}>${Object.keys(screens).map(link)}</nav>
    </header>
    <main id="main" class="console-main" tabindex="-1">${children}</main>`;
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

// signInError returns the key of the text about a token that does not work.
function signInError({ status }) {
  if (status === 401) return 'badToken';
  if (status === 403) return 'notAdmin';
  return status === 0 ? 'offlineHint' : 'unavailable';
}

// useSession returns {token, error, signIn, signOut}. The token is in memory only, and is
// tried before it is used.
function useSession() {
  const [token, setToken] = useState(null);
  const [error, setError] = useState('');
  const signIn = useCallback(async (tried) => {
    try {
      await fetchJSON(tried, '/v1/admin/status');
      setError('');
      setToken(tried);
    } catch (problem) {
      setError(signInError(problem));
    }
  }, []);
  useEffect(() => {
    onRefusedToken((refused) => {
      if (refused !== token) return;
      setToken(null);
      setError('badToken');
    });
  }, [token]);
  const signOut = () => {
    setToken(null);
    location.hash = '#/';
  };
  return { token, error, signIn, signOut };
}

function App() {
  const { token, error, signIn, signOut } = useSession();
  const [screen, path, hash] = useRoute();
  const [shownLocale, showLocale] = useState(locale);
  const [toast, notify] = useToast();
  const opened = useRef(false);
  useEffect(() => {
    document.title = `${t(screen)} · Stepboard`;
  }, [screen, shownLocale]);
  useEffect(() => {
    if (opened.current) document.querySelector('main h1')?.focus();
    opened.current = Boolean(token);
  }, [hash, token]);
  const onLocale = (newLocale) => {
    setLocale(newLocale);
    showLocale(newLocale);
  };
  if (!token) return html`<${SignIn} ...${{ signIn, error, onLocale }} />`;
  const Screen = screens[screen];
  return html`<${Layout} ...${{ screen, signOut, onLocale }}>
      <${ErrorBoundary} hash=${hash}>
        <${Screen} key=${hash} ...${{ token, screen, path, notify }} />
      <//>
    <//>
    ${toast}`;
}

render(html`<${App} />`, document.getElementById('app'));
