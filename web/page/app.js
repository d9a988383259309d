// The page: session, navigation, and everything around a screen.
import { fetchJSON, onRefusedToken, pollInterval } from './api.js';
import { Avatar, ErrorBoundary, ErrorNotice, Icon, lazy, nameOf, Skeleton } from './components.js';
import { stripBidi, t, tRich } from './i18n.js';
import { PastDay, Today } from './today.js';
import { html, render, useCallback, useEffect, useRef, useState } from './view.js';

const isDemo = document.documentElement.hasAttribute('data-demo');
const toastTime = 4500;

// Screens by the first part of the address. The rest is their prop path.
const screens = {
  '': Today,
  day: PastDay,
  history: lazy(() => import('./history.js').then(({ History }) => History)),
  boards: lazy(() => import('./boards.js').then(({ Boards }) => Boards)),
  friends: lazy(() => import('./friends.js').then(({ Friends }) => Friends)),
};

// The tabs, and the first parts of the addresses that belong to each.
const tabs = [
  { name: 'today', href: '#/', routes: ['', 'day'] },
  { name: 'history', href: '#/history', routes: ['history'] },
  { name: 'boards', href: '#/boards', routes: ['boards'] },
  { name: 'friends', href: '#/friends', routes: ['friends'] },
];

// tabOf returns the name of the tab that a route belongs to. An unknown route
// shows today.
const tabOf = (route) => (tabs.find((tab) => tab.routes.includes(route)) ?? tabs[0]).name;

// userOf returns the user of a token. It does not verify the token: only the
// service can.
function userOf(token) {
  const user = { user_id: '0', nickname: '', avatar_url: '' };
  try {
    const base64 = token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/');
    return { ...user, user_id: String(JSON.parse(atob(base64)).sub ?? '0') };
  } catch {
    return user;
  }
}

// decode returns a part of an address, as it is if it can't be decoded.
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// useRoute returns [route, path]: the first part of the address's hash, and the
// parts after it.
function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const change = () => setHash(location.hash);
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  const [route = '', ...path] = hash.replace(/^#\/?/, '').split('/');
  return [route, path.map(decode)];
}

// useToast returns [toast, notify, announce]. notify(text) shows a message and
// has it read by screen readers; announce(text) only has it read.
function useToast() {
  const [message, setMessage] = useState(null);
  const [announcement, announce] = useState('');
  const timer = useRef(0);
  const notify = useCallback((text) => {
    clearTimeout(timer.current);
    setMessage({ text, id: Date.now() });
    timer.current = setTimeout(() => setMessage(null), toastTime);
  }, []);
  return [html`<${Toast} message=${message} announcement=${announcement} />`, notify, announce];
}

// Positions of the screens in the tab's history, by the id in their entry's state.
const positions = new Map();
let currentId = '';
let removeObserver = () => {};

// scrollWhenLoaded scrolls to a position once the screen is long enough, unless the
// visitor does something first.
function scrollWhenLoaded(y) {
  const controller = new AbortController();
  const { signal } = controller;
  const observer = new ResizeObserver(() => {
    if (document.documentElement.scrollHeight < y + innerHeight) return;
    scrollTo(0, y);
    removeObserver();
  });
  removeObserver = () => {
    observer.disconnect();
    controller.abort();
  };
  for (const event of ['wheel', 'touchstart', 'keydown', 'pointerdown']) {
    addEventListener(event, removeObserver, { signal, passive: true });
  }
  observer.observe(document.body);
}

// followHistory gives each entry of the tab's history an id, and remembers how far
// its screen was scrolled. It runs before the new screen is drawn.
function followHistory() {
  positions.set(currentId, scrollY);
  removeObserver();
  currentId = history.state?.id;
  if (currentId === undefined) {
    currentId = crypto.getRandomValues(new Uint32Array(2)).join('-');
    history.replaceState({ id: currentId }, '');
  }
}
history.scrollRestoration = 'manual';
followHistory();
addEventListener('hashchange', followHistory);

// useFocusOnNavigation moves the focus to the heading of a screen when the
// address changes, but not when the page is opened. A screen that was left is
// scrolled to where it was.
function useFocusOnNavigation(hash) {
  const opened = useRef(false);
  useEffect(() => {
    if (opened.current) {
      scrollTo(0, 0);
      if (positions.get(currentId) > 0) scrollWhenLoaded(positions.get(currentId));
      const heading = document.querySelector('main h1') ?? document.getElementById('main');
      heading?.focus({ preventScroll: true });
    }
    opened.current = true;
  }, [hash]);
}

// useDemoPeople returns [people, error, retry, renew]: the people whom a visitor of
// the demo may be. renew gets their tokens again, however long that takes.
function useDemoPeople() {
  const [people, setPeople] = useState(null);
  const [error, setError] = useState(null);
  const load = useCallback(() => {
    setError(null);
    fetchJSON(null, '/demo/people').then((body) => setPeople(body.people), setError);
  }, []);
  useEffect(() => {
    if (isDemo) load();
  }, []);
  const renewing = useRef(false);
  const renew = useCallback(async () => {
    if (renewing.current) return;
    renewing.current = true;
    while (renewing.current) {
      try {
        setPeople((await fetchJSON(null, '/demo/people')).people);
        renewing.current = false;
      } catch {
        await new Promise((resolve) => {
          setTimeout(resolve, pollInterval);
        });
      }
    }
  }, []);
  return [people, error, load, renew];
}

function UserSwitch({ people, user, onSwitch }) {
  const change = (event) =>
    onSwitch(people.find((person) => person.user_id === event.target.value));
  const option = (person) => html`<option
    key=${person.user_id}
    value=${person.user_id}
    selected=${person === user}
  >
    ${stripBidi(nameOf(person))}
  </option>`;
  return html`<div class="switch">
    <${Avatar} user=${user} size="small" />
    <select aria-label=${t('youAre')} value=${user.user_id} onChange=${change}>
      ${people.map(option)}
    </select>
    <${Icon} name="chevron" />
  </div>`;
}

function Layout({ session, tab, onSwitch, signOut, children }) {
  const skip = (event) => {
    event.preventDefault();
    document.getElementById('main').focus();
  };
  const link = ({ name, href }) => html`<a
    key=${name}
    href=${href}
    aria-current=${name === tab ? 'page' : undefined}
  >
    <${Icon} name=${name} /><span>${t(name)}</span>
  </a>`;
  return html`<a class="skip" href="#main" onClick=${skip}>${t('skip')}</a>
    <header class="top">
      <a class="brand" href="#/">
        <img src="/assets/icon.svg" alt="" width="28" height="28" />
        Stepboard
      </a>
      ${
        session.people
          ? html`<${UserSwitch} people=${session.people} user=${session.user} onSwitch=${onSwitch} />`
          : html`<button class="button plain" onClick=${signOut}>${t('signOut')}</button>`
      }
    </header>
    <nav class="tabs" aria-label=${t('main')}>${tabs.map(link)}</nav>
    <main id="main" tabindex="-1">${children}</main>`;
}

function SignIn({ signIn, error }) {
  const [token, setToken] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (token.trim()) signIn(token.trim());
  };
  const command = html`<code>stepboard token --user 9</code>`;
  return html`<main class="sign-in" id="main">
    <img src="/assets/icon.svg" alt="" width="64" height="64" />
    <h1>Stepboard</h1>
    <p>${t('welcome')}</p>
    <form class="card" onSubmit=${submit}>
      <label for="token">${t('token')}</label>
      <input
        id="token"
        type="password"
        autocomplete="off"
        spellcheck=${false}
        required
        value=${token}
        onInput=${(event) => setToken(event.target.value)}
        aria-describedby="token-hint"
      />
      <p class="wrong" role="alert">${error}</p>
      <button class="button strong">${t('signIn')}</button>
      <p id="token-hint" class="hint">${tRich('tokenHint', { command })}</p>
    </form>
    <a class="docs" href="/docs">${t('docs')}</a>
  </main>`;
}

// Toast shows a message for a short time. Screen readers also read announcement,
// which is not shown.
function Toast({ message, announcement }) {
  return html`<div class="message" role="status" aria-live="polite">
      ${message && html`<p key=${message.id}>${message.text}</p>`}
    </div>
    <div class="visually-hidden" role="status" aria-live="polite">${announcement}</div>`;
}

function Loading({ error, retry }) {
  const content = error
    ? html`<section class="card"><${ErrorNotice} error=${error} retry=${retry} /></section>`
    : html`<section class="card list"><${Skeleton} /></section>`;
  return html`<main id="main" class="alone">${content}</main>`;
}

function App() {
  const [people, loadError, retry, renew] = useDemoPeople();
  const [signedIn, setLogin] = useState(null); // {token, user}, but in the demo
  const [chosenId, setChosenId] = useState('');
  const [signInError, setSignInError] = useState('');
  const [board, setBoard] = useState('steps');
  const [today, setToday] = useState(null);
  const [toast, notify, announce] = useToast();
  const [route, path] = useRoute();
  const tab = tabOf(route);
  const person = people?.find(({ user_id: id }) => id === chosenId) ?? people?.[0];
  const login = person ? { token: person.token, user: person } : signedIn;
  const token = login?.token;

  useFocusOnNavigation(location.hash);
  useEffect(() => {
    document.title = `${t(tab)} · Stepboard`;
  }, [tab]);

  const signIn = (newToken) => {
    setSignInError('');
    setToday(null);
    setLogin({ token: newToken, user: userOf(newToken) });
  };
  const signOut = () => {
    setLogin(null);
    location.hash = '#/';
  };
  // A refused token ends the session. A demo that was restarted has new ones.
  useEffect(() => {
    onRefusedToken((refusedToken) => {
      if (refusedToken !== token) return;
      if (isDemo) {
        renew();
      } else {
        setLogin(null);
        setSignInError(t('badToken'));
      }
    });
  }, [token]);
  // A service without the board shows another daily one.
  const onError = useCallback(
    async (error) => {
      if (error.code === 'board_not_found' && token) {
        const { boards } = await fetchJSON(token, '/v1/boards').catch(() => ({ boards: [] }));
        const daily = boards.find(({ kind }) => kind === 'daily');
        if (daily) setBoard(daily.name);
      }
    },
    [token],
  );

  if (!login && isDemo) return html`<${Loading} error=${loadError} retry=${retry} />`;
  if (!login) return html`<${SignIn} error=${signInError} signIn=${signIn} />`;
  const session = { ...login, people, board, today };
  const Screen = Object.hasOwn(screens, route) ? screens[route] : Today;
  const screenProps = { session, path, notify, announce, onError, onToday: setToday };
  return html`<${Layout}
      session=${session}
      tab=${tab}
      onSwitch=${(user) => setChosenId(user.user_id)}
      signOut=${signOut}
    >
      <${ErrorBoundary} hash=${location.hash}>
        <${Screen} key=${token} ...${screenProps} />
      <//>
    <//>
    ${toast}`;
}

render(html`<${App} />`, document.getElementById('app'));
